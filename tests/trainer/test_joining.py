"""How successors of lost workers join a cluster that TensorFlow has fixed."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

from trainer import joining

from sparktf.knobs import KNOBS


def test_two_workers_that_are_lost_at_once_join_one_right_after_the_other(elsewhere: ProcessPoolExecutor) -> None:
    (expected, *sent), took_s = elsewhere.submit(joining.two_lost_at_once).result()
    assert sent == [expected], "the second has its successor since the first"
    assert took_s < KNOBS.reconnect_s / 4
