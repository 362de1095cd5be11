"""What trainers tell of their time, how the driver adds it up, and what it advises."""

from __future__ import annotations

import math
import socket
from itertools import pairwise

import numpy as np
import pytest

from sparktf.driver.attempt.advice import advise
from sparktf.driver.attempt.members import Trainer
from sparktf.results.usage import Staleness, Usage, WorkTime
from sparktf.topology import NodeId, Role
from sparktf.trainer.parameter_server.meter import Connections, ProcessMeter, WorkMeter

WORKER = NodeId(role=Role.WORKER, index=0)
GIB = 2**30


def trainer() -> Trainer:
    return Trainer(WORKER, "a", "h", 0.0, 0.0)


def told(seconds: float, cpu_s: float, sent: int, waiting_s: float, stale: int = 0) -> Usage:
    work, staleness = WorkTime(waiting_s=waiting_s), {1: stale, 2: 1} if stale else {}
    return Usage(seconds=seconds, cpu_s=cpu_s, cores=2, sent_nbytes=sent, work=work, staleness=staleness)


def test_what_a_process_uses_counts_while_the_gang_trains_and_from_its_first_word_on() -> None:
    one = trainer()
    beats = [(told(1, 10, 100, 0.5), True), (told(3, 11, 150, 1.5), True), (told(7, 14, 950, 1.75), False)]
    for usage, trains in [*beats, (told(9, 15, 1000, 3.75), True)]:
        one.use(usage, trains=trains)
    assert one.usage == Usage(seconds=4, cpu_s=2, cores=2, sent_nbytes=100, work=WorkTime(waiting_s=3.75))
    assert one.usage.busy == pytest.approx(0.25)


def test_a_word_that_comes_late_changes_nothing() -> None:
    one = trainer()
    for usage in (told(1, 1, 0, 1), told(3, 2, 0, 2)):
        one.use(usage, trains=True)
    before = one.usage
    one.use(told(2, 1.5, 0, 1.5), trains=True)
    assert one.usage == before


def test_a_successors_use_is_added_to_that_of_the_one_before() -> None:
    first = trainer()
    for usage in (told(1, 1, 0, 1, 3), told(3, 2, 0, 2, 4)):
        first.use(usage, trains=True)
    second = first.successor("b", "h", "h:1", 9.0)
    for usage in (told(0.5, 7, 0, 0.25), told(1.5, 8, 0, 0.5, 5)):
        second.use(usage, trains=True)
    assert second.usage == Usage(seconds=3, cpu_s=2, cores=2, work=WorkTime(waiting_s=2.5), staleness={1: 9, 2: 2})


def test_a_workers_time_is_divided_without_a_rest_and_without_what_lies_between_epochs() -> None:
    times = iter([0.0, 1.0, 4.0, 4.5, 5.0, 7.0, 100.0, 100.5, 103.0])
    meter = WorkMeter(lambda: next(times))
    meter.ask(0)
    meter.take()
    meter.update([0.5, 1.0], np.array([0, 1, 5000]))
    meter.ask(0)
    meter.take()
    meter.update([0.0, 3.0], np.array([1]))  # clocks of another kind: never less than nothing
    meter.ask(1)
    meter.take()
    meter.update([], np.array([], np.int64))
    assert meter.work == WorkTime(
        rows_s=1.0 + 0.5 + 0.5, reading_s=0.5, computing_s=4.0, applying_s=1.5, function_s=2.5, waiting_s=0.5
    )
    assert meter.staleness == {0: 1, 1: 2, 1000: 1}


def test_executions_that_measure_nothing_have_spent_their_time_as_those_that_do() -> None:
    times = iter([0.0, 0.0, 4.0, 4.0, 4.0, 10.0, 10.0, 10.0, 12.0])
    meter = WorkMeter(lambda: next(times))
    nobody = [math.nan, math.nan]
    for stages, stale, expected in (
        (nobody, [], WorkTime(function_s=4.0)),
        ([3.0, 1.5], [2], WorkTime(reading_s=5.0, computing_s=2.5, applying_s=2.5)),
        (nobody, [], WorkTime(reading_s=6.0, computing_s=3.0, applying_s=3.0)),
    ):
        meter.ask(0)
        meter.take()
        meter.update(stages, np.array(stale, np.int64))
        assert meter.work == expected
    assert meter.staleness == {2: 1}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, None),
        ({0: 1}, Staleness(median=0, p99=0)),
        ({2: 2, 1: 3}, Staleness(median=1, p99=2)),
        ({0: 99, 3: 1}, Staleness(median=0, p99=0)),
        ({0: 98, 3: 2}, Staleness(median=0, p99=3)),
        ({0: 1, 1: 1, 2: 1, 10: 1}, Staleness(median=1, p99=10)),
    ],
)
def test_staleness_is_told_by_what_half_and_99_percent_do_not_exceed(
    counts: dict[int, int], expected: Staleness | None
) -> None:
    assert Staleness.of(counts) == expected


def test_bytes_of_connections_count_also_once_they_are_closed() -> None:
    connections = Connections()
    before = connections.look()
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as one, server.accept()[0] as other:
            one.sendall(bytes(70_000))
            left = 70_000
            while left:
                left -= len(other.recv(left))
            open_still = connections.look()
        closed = connections.look()
    for known in (open_still, closed):
        assert 70_000 <= known.received - before.received < 71_000
        assert 70_000 <= known.sent - before.sent < 71_000


def test_a_process_tells_of_itself() -> None:
    meter = ProcessMeter()
    looks = [meter.read() for _ in range(3)]
    for earlier, later in pairwise(looks):
        assert later.seconds > earlier.seconds
        assert later.cpu_s >= earlier.cpu_s > 0
    assert looks[0].resident_nbytes > 10 * 2**20
    assert looks[0].cores >= 1


def used(cpu_s: float, *, resident: int = GIB, cores: int = 1) -> Usage:
    return Usage(seconds=100, cpu_s=cpu_s, cores=cores, resident_nbytes=resident)


def worked(rows: float = 0, reading: float = 0, computing: float = 0, applying: float = 0, waiting: float = 0) -> Usage:
    work = WorkTime(rows_s=rows, reading_s=reading, computing_s=computing, applying_s=applying, waiting_s=waiting)
    return Usage(seconds=100, cpu_s=50, work=work)


PS_BOUND = worked(reading=40, computing=20, applying=40)
COMPUTING = worked(rows=5, reading=5, computing=85, applying=5)


@pytest.mark.parametrize(
    ("workers", "servers", "coordinator", "expected"),
    [
        ([PS_BOUND], [93], 10, "ps 0 is busy 93%, and workers wait for ps 80% of their time: use 2 ps"),
        ([PS_BOUND] * 3, [80, 90, 70], 10, "ps 1 is busy 90%, and workers wait for ps 80% of their time: use 5 ps"),
        (
            [PS_BOUND],
            [90, 12],
            10,
            "ps 0 is busy 90%, and workers wait for ps 80% of their time, while no other ps is busy more than 12%: "
            "split the variables that it holds",
        ),
        ([PS_BOUND], [70], 10, ""),
        ([PS_BOUND, COMPUTING, COMPUTING], [93], 10, ""),
        ([COMPUTING], [93], 10, ""),
        (
            [worked(computing=40, waiting=60)],
            [10],
            95,
            "workers are idle 60% of their time, and the coordinator takes 95% of a core: raise "
            "train.steps_per_call, or use fewer workers",
        ),
        ([worked(computing=40, waiting=60)], [10], 30, ""),
        ([worked(rows=70, computing=30)], [3], 5, "workers wait for rows 70% of their time: more ps would not help"),
        (
            [COMPUTING],
            [4, 6, 1],
            5,
            "workers compute 85% of their time, and ps 1 is the busiest ps with 6%: use 1 ps, or more workers",
        ),
        (
            [COMPUTING],
            [30, 30, 30, 30],
            5,
            "workers compute 85% of their time, and ps 0 is the busiest ps with 30%: use 3 ps, or more workers",
        ),
        ([COMPUTING], [4], 5, ""),
        ([COMPUTING], [25, 30], 5, ""),
        ([worked(computing=9)], [1, 1], 5, ""),
        ([Usage(seconds=100)], [93], 10, ""),
        ([], [93], 10, ""),
        ([PS_BOUND], [], 10, ""),
    ],
)
def test_what_is_advised(workers: list[Usage], servers: list[float], coordinator: float, expected: str) -> None:
    said = advise(
        {f"worker {i}": usage for i, usage in enumerate(workers)},
        {f"ps {i}": used(share) for i, share in enumerate(servers)},
        used(coordinator),
        server_nbytes=4 * GIB,
    )
    assert said == expected


def test_servers_are_kept_whose_memory_one_alone_does_not_have() -> None:
    servers = {f"ps {i}": used(1, resident=3 * GIB) for i in range(3)}
    said = advise({"worker 0": COMPUTING}, servers, used(1), server_nbytes=5 * GIB)
    assert said.endswith("2 ps, or more workers")
    assert advise({"worker 0": COMPUTING}, servers, used(1), server_nbytes=4 * GIB) == ""


def test_a_processor_of_many_is_a_share_of_all() -> None:
    assert used(100, cores=4).busy == pytest.approx(0.25)
