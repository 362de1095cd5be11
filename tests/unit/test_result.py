"""Which result a submission repeats, and which executors are refused for their versions."""

from __future__ import annotations

import pytest

from sparktf.driver.gang.reserved import differing_versions
from sparktf.errors import ErrorRecord, Verdict
from sparktf.results.result import Application, AttemptResult, NodeInput, NodeResult, RunResult


def result(verdict: Verdict, error: str = "ModelError", application: str = "app", attempt: int = 1) -> RunResult:
    record = None if verdict is Verdict.DONE else ErrorRecord(type=error, message="why", verdict=verdict, time_s=1.0)
    return RunResult(
        run_id="r", name="n", verdict=verdict, error=record, application=application, application_attempt=attempt
    )


@pytest.mark.parametrize("verdict", Verdict)
def test_a_second_application_master_repeats_every_verdict(verdict: Verdict) -> None:
    assert result(verdict).is_repeated_by(Application("app", 2))


def test_it_goes_on_with_a_run_that_was_interrupted() -> None:
    interrupted = result(Verdict.INFRASTRUCTURE, "RunInterruptedError")
    assert not interrupted.is_repeated_by(Application("app", 2))


def test_a_new_submission_repeats_only_success() -> None:
    assert result(Verdict.DONE).is_repeated_by(Application("other", 1))
    assert not result(Verdict.MODEL_FAILED).is_repeated_by(Application("other", 2))


def test_one_application_may_train_a_failed_run_again() -> None:
    assert not result(Verdict.MODEL_FAILED).is_repeated_by(Application("app", 1))
    assert not result(Verdict.MODEL_FAILED, attempt=0).is_repeated_by(Application("app", 0))


DRIVER = {"python": "3.11.7", "tensorflow": "2.21.0", "sparktf": "1.0", "pyarrow": "20"}


def reader(host: str, nbytes: int, local_nbytes: int | None, wait_s: float) -> NodeResult:
    read = NodeInput(seconds=10.0, wait_s=wait_s)
    return NodeResult(node="worker 0", host=host, nbytes=nbytes, local_nbytes=local_nbytes, input=read)


def attempt_of(*nodes: NodeResult) -> AttemptResult:
    return AttemptResult(attempt=1, workers=2, hosts=("a", "b"), from_step=0, to_step=1, duration_s=1.0, nodes=nodes)


def test_locality_and_waiting_are_shares_over_all_nodes_of_all_attempts() -> None:
    first, second = (
        attempt_of(reader("a", 300, 300, 1.0), reader("b", 100, 0, 3.0)),
        attempt_of(reader("b", 0, None, 8.0)),
    )
    result = RunResult(run_id="r", name="t", verdict=Verdict.DONE, attempts=(first, second))
    assert result.locality == 0.75
    assert result.host_nbytes == {"a": (300, 300), "b": (100, 0)}
    assert result.waiting_share == pytest.approx(0.4)


def test_shares_that_nobody_knows_are_none() -> None:
    unknown = attempt_of(reader("a", 300, 300, 0.0), reader("b", 100, None, 0.0))
    assert RunResult(run_id="r", name="t", verdict=Verdict.DONE, attempts=(unknown,)).locality is None
    nothing = RunResult(run_id="r", name="t", verdict=Verdict.REFUSED)
    assert (nothing.locality, nothing.waiting_share, nothing.host_nbytes) == (None, None, {})


def test_executors_of_the_drivers_versions_are_taken() -> None:
    assert differing_versions(DRIVER, DRIVER | {"python": "3.11.9", "pyarrow": "21"}) == []
    assert differing_versions(DRIVER | {"tensorflow": "missing"}, DRIVER) == []


@pytest.mark.parametrize("name", ["python", "tensorflow", "sparktf"])
def test_others_are_refused_with_both_versions(name: str) -> None:
    (problem,) = differing_versions(DRIVER, DRIVER | {name: "9.9"})
    assert problem.startswith(f"{name} 9.9, but the driver has {DRIVER[name]}")
