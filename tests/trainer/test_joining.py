"""How successors of lost workers join a cluster that TensorFlow has fixed, and what has their places without any."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import pytest
from trainer import joining

from sparktf.knobs import KNOBS


def test_two_workers_that_are_lost_at_once_join_one_right_after_the_other(elsewhere: ProcessPoolExecutor) -> None:
    (expected, *sent), took_s = elsewhere.submit(joining.two_lost_at_once).result()
    assert sent == [expected], "the second has its successor since the first"
    assert took_s < KNOBS.reconnect_s / 4


def test_a_place_that_nobody_takes_has_a_server_that_executes_nothing_until_somebody_comes(
    elsewhere: ProcessPoolExecutor,
) -> None:
    found = elsewhere.submit(joining.stood_in).result()
    assert all(found), found


def test_executions_that_tensorflow_puts_back_count_as_broken_off_where_they_were_made(
    elsewhere: ProcessPoolExecutor,
) -> None:
    found, waiting = elsewhere.submit(joining.broken_off).result()
    assert found == {(joining.WORKERS[1], 0): 1}
    assert waiting == 2


@pytest.mark.parametrize(("is_over", "why"), [(False, "cannot be reached"), (True, "can be reached again")])
def test_a_call_to_a_lost_worker_that_never_ends_fails_with_its_name_and_what_its_host_says_now(
    is_over: bool, why: str, elsewhere: ProcessPoolExecutor
) -> None:
    said, address = elsewhere.submit(joining.cut_off, is_over=is_over).result()
    assert said == f"worker 0 at {address} is lost, and a call to it does not end: its host {why}"


def test_a_worker_that_is_lost_while_the_definition_is_sent_to_it_is_the_cause(elsewhere: ProcessPoolExecutor) -> None:
    said, address = elsewhere.submit(joining.lost_in_sending).result()
    assert said == (
        f"worker 0 at {address} was lost while it was sent the cluster definition, and that call does not end"
    )


def test_a_lost_worker_that_executes_nothing_is_the_cause_where_its_host_says_nothing(
    elsewhere: ProcessPoolExecutor,
) -> None:
    said, address = elsewhere.submit(joining.lost_while_idle, says_gone=False).result()
    assert said == [f"worker 0 at {address} is lost, and its host cannot be reached"]


def test_a_lost_worker_that_executes_nothing_is_not_missed_where_its_host_says_that_it_is_gone(
    elsewhere: ProcessPoolExecutor,
) -> None:
    said, _ = elsewhere.submit(joining.lost_while_idle, says_gone=True).result()
    assert said == []
