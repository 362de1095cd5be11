"""Which executions of a run measure where their time goes."""

from __future__ import annotations

from typing import Any

import pytest

from sparktf.trainer.parameter_server.sampling import ONE_IN, Sampling, is_measured, is_worth_tracing

SENT = 4_000


@pytest.mark.parametrize("workers", range(1, 33))
def test_of_workers_that_take_their_turns_each_measures_about_one_execution_in_so_many(workers: int) -> None:
    for worker in range(workers):
        own = [is_measured(number, SENT, 0) for number in range(worker, SENT * workers, workers)]
        assert sum(own) == pytest.approx(SENT / ONE_IN, rel=0.05)


def test_the_first_ones_after_a_worker_came_measure() -> None:
    number = next(n for n in range(1, 99) if not is_measured(n, 6, 6))
    assert is_measured(number, 5, 6)


@pytest.mark.parametrize(("trained_s", "expected"), [(0.0, False), (0.9, False), (1.1, True)])
def test_tracing_another_function_waits_until_it_is_little_beside_the_training(
    trained_s: float, expected: bool
) -> None:
    assert is_worth_tracing(trained_s, 0.2) is expected


def test_all_measure_until_there_is_time_to_trace_what_does_not_and_again_where_a_worker_has_come() -> None:
    now_s, traced = [0.0], []

    def trace() -> Any:
        traced.append(now_s[0])
        return "plain"

    sampling = Sampling("measured", trace, traced_s=0.5, first=4, now_s=lambda: now_s[0])
    early = [sampling.choose(number, "two") for number in range(1, 50)]
    assert set(early) == {"measured"}
    now_s[0] = 10.0
    later = [sampling.choose(number, "two") for number in range(50, 50 + SENT)]
    assert later.count("measured") == pytest.approx(SENT / ONE_IN, rel=0.05)
    after = [sampling.choose(50 + SENT + number, "another two") for number in range(20)]
    assert after[:4] == ["measured"] * 4
    assert "plain" in after[4:]
    assert traced == [10.0]
