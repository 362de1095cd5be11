"""Who is slow: which node is named, and when, by what all have told of their updates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sparktf.driver.attempt.slowness import Slowness, Told
from sparktf.results.pace import NodePace, SlowNode, Strain, Times, UpdatePace, middle_s, time_class
from sparktf.topology import NodeId, Role
from sparktf.trainer.node.strain import strain
from sparktf.trainer.sync.update_meter import UpdateMeter

A, B, C, D = (NodeId(role=Role.WORKER, index=i) for i in range(4))
LIMIT_S = 60.0
Gang = dict[NodeId, float]
"""Seconds of computing an update, by node."""


class Watched:
    """A gang that makes an update a second, and is looked at each second.

    Attributes:
        named: Those that were named, and when.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.named: list[tuple[float, SlowNode]] = []
        self._state = Slowness(LIMIT_S)
        self._paces: dict[NodeId, UpdatePace] = {}

    def go_on(
        self,
        seconds: int,
        computing: Gang,
        *,
        rows: Gang | None = None,
        update_s: float = 1.0,
        updates: int = 1,
        steal: float = 0.0,
        incarnation: int = 0,
    ) -> None:
        """Has time pass, with `updates` a second that take `update_s` each, with all waiting."""
        for _ in range(seconds):
            self.now_s += 1
            for node, each in computing.items():
                before = self._paces.get(node, UpdatePace(strain=Strain(at_s=0.0, steal_s=0.0)))
                steal_s = before.strain.steal_s if before.strain and before.strain.steal_s else 0.0
                made = UpdatePace(
                    updates=updates,
                    rows=int(updates * (rows or {}).get(node, 10)),
                    computing=Times(total_s=updates * each),
                    peers_wait=Times(total_s=updates * (update_s - each)),
                    strain=Strain(at_s=self.now_s, steal_s=steal_s + steal),
                )
                self._paces[node] = before + made
            told = {node: Told("h", incarnation, int(self.now_s), self._paces[node]) for node in computing}
            self._state, found = self._state.look(told, self.now_s)
            self.named += [(self.now_s, each) for each in found]

    @property
    def nodes(self) -> list[str]:
        return [each.node for _, each in self.named]


class TestASlowNode:
    def test_is_named_once_after_its_time(self) -> None:
        gang = Watched()
        gang.go_on(300, {A: 0.2, B: 0.31, C: 0.2})
        ((at_s, found),) = gang.named
        assert LIMIT_S <= at_s <= LIMIT_S + 10
        assert (found.node, found.host, found.step) == ("worker 1", "h", int(at_s))
        assert found.computing_s == pytest.approx(0.31)
        assert found.median_s == pytest.approx(0.2)

    @pytest.mark.parametrize(
        ("why", "gang"),
        [
            ("one node", {A: 5.0}),
            ("all alike", {A: 0.5, B: 0.5, C: 0.5}),
            ("less than half as long again", {A: 0.2, B: 0.29, C: 0.2}),
            ("two nodes, less than half as long again", {A: 0.2, B: 0.29}),
            ("nobody is alone: three of four are slow", {A: 0.2, B: 0.5, C: 0.5, D: 0.5}),
            ("it makes no odds: all wait for something else", {A: 0.02, B: 0.04, C: 0.02}),
        ],
    )
    def test_is_not_named(self, why: str, gang: Gang) -> None:
        watched = Watched()
        watched.go_on(600, gang)
        assert watched.nodes == [], why

    @pytest.mark.parametrize(
        ("gang", "names"),
        [
            ({A: 0.2, B: 0.31}, ["worker 1"]),
            ({A: 0.2, B: 0.2, C: 0.4, D: 0.4}, ["worker 2", "worker 3"]),
            ({A: 0.9, B: 0.2, C: 0.2}, ["worker 0"]),
        ],
    )
    def test_is_compared_with_the_median(self, gang: Gang, names: list[str]) -> None:
        watched = Watched()
        watched.go_on(120, gang)
        assert watched.nodes == names

    def test_is_not_named_before_a_minute_nor_after_one_with_a_break(self) -> None:
        gang = Watched()
        for _ in range(5):
            gang.go_on(55, {A: 0.2, B: 0.5, C: 0.2})
            gang.go_on(5, {A: 0.2, B: 0.2, C: 0.2})
        assert gang.nodes == []

    def test_is_not_named_for_time_without_an_update_as_in_an_evaluation(self) -> None:
        gang = Watched()
        gang.go_on(40, {A: 0.2, B: 0.5, C: 0.2})
        gang.go_on(100, {A: 0.2, B: 0.5, C: 0.2}, updates=0)
        assert gang.nodes == []
        gang.go_on(40, {A: 0.2, B: 0.5, C: 0.2})
        assert gang.nodes == ["worker 1"]

    def test_is_not_who_has_rows_while_others_have_run_dry(self) -> None:
        gang = Watched()
        gang.go_on(200, {A: 0.5, B: 0.0, C: 0.0}, rows={A: 10, B: 0, C: 0})
        assert gang.nodes == []

    def test_is_found_by_heartbeats_that_come_one_after_the_other(self) -> None:
        gang, paces = Slowness(LIMIT_S), {node: UpdatePace() for node in (A, B, C)}
        named: list[str] = []
        for second in range(1200):
            node = (A, B, C)[second // 4 % 3]
            made = UpdatePace(
                updates=12,
                rows=120,
                computing=Times(total_s=12 * (0.5 if node == B else 0.2)),
                peers_wait=Times(total_s=12 * (0.5 if node == B else 0.8)),
            )
            paces[node] += made if second % 4 == 0 else UpdatePace()
            gang, found = gang.look({each: Told("h", 0, second, pace) for each, pace in paces.items()}, float(second))
            named += [each.node for each in found]
        assert named == ["worker 1"]

    def test_begins_anew_with_its_successor_and_is_not_named_again(self) -> None:
        gang = Watched()
        gang.go_on(50, {A: 0.2, B: 0.5, C: 0.2})
        gang.go_on(50, {A: 0.2, B: 0.5, C: 0.2}, incarnation=1)
        assert gang.nodes == []
        gang.go_on(50, {A: 0.2, B: 0.5, C: 0.2}, incarnation=1)
        gang.go_on(200, {A: 0.2, B: 0.5, C: 0.2}, incarnation=2)
        assert gang.nodes == ["worker 1"]

    def test_is_named_with_what_is_known_of_its_host_since_it_was_slow(self) -> None:
        gang = Watched()
        gang.go_on(100, {A: 0.2, B: 0.2, C: 0.2})
        gang.go_on(100, {A: 0.2, B: 0.5, C: 0.2}, steal=0.4)
        ((_, found),) = gang.named
        assert found.strain == "40% taken by other virtual machines (steal)"
        assert found.in_words() == (
            "worker 1 on h is slow: in the last 60 s it has computed for 0.5 s an update, and the median of the gang "
            "is 0.2 s, so that the others wait for it; its host's time: 40% taken by other virtual machines (steal)"
        )


class Clock:
    """Time as a test has it pass."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def call(
    meter: UpdateMeter, clock: Clock, *, rows_s: float, agree_s: float, updates: list[tuple[float, float]]
) -> None:
    """Makes a call; `updates` has the seconds of computing, and of the sum, of each."""
    meter.begin()
    clock.now_s += rows_s
    meter.took_rows()
    clock.now_s += agree_s
    meter.agreed()
    clock.now_s += 9.0  # a save
    meter.call()
    for computing_s, sum_s in updates:
        clock.now_s += computing_s
        began_s = clock.now_s
        clock.now_s += sum_s
        meter.summed(began_s)
    clock.now_s += 0.5
    meter.made(len(updates), 10 * len(updates))


class TestTheMeter:
    def test_tells_computing_rows_and_peers_apart_without_the_first_call(self) -> None:
        clock = Clock()
        meter = UpdateMeter(now_s=clock)
        call(meter, clock, rows_s=50.0, agree_s=50.0, updates=[(50.0, 50.0)])
        assert meter.read().updates == 0
        call(meter, clock, rows_s=0.2, agree_s=0.4, updates=[(1.0, 0.25), (2.0, 0.25)])
        pace = meter.read()
        assert (pace.updates, pace.rows) == (2, 20)
        assert pace.computing.total_s == pytest.approx(3.5)
        assert pace.rows_wait.total_s == pytest.approx(0.2)
        assert pace.peers_wait.total_s == pytest.approx(0.9)
        assert pace.computing.counts == {time_class(1.0): 1, time_class(2.5): 1}
        assert pace.seconds == pytest.approx(4.6)

    def test_of_a_node_that_sums_nothing_all_of_a_call_is_computing(self) -> None:
        clock = Clock()
        meter = UpdateMeter(now_s=clock)
        for _ in range(2):
            meter.begin()
            meter.took_rows()
            meter.agreed()
            meter.call()
            clock.now_s += 8.0
            meter.made(4, 40)
        assert meter.read().computing == Times(total_s=8.0, counts={time_class(2.0): 4})

    def test_what_was_interrupted_does_not_count(self) -> None:
        clock = Clock()
        meter = UpdateMeter(now_s=clock)
        call(meter, clock, rows_s=0.0, agree_s=0.0, updates=[(1.0, 0.0)])
        meter.begin()
        meter.call()
        meter.summed(clock.now_s)
        call(meter, clock, rows_s=0.0, agree_s=0.0, updates=[(1.0, 0.25)])
        assert meter.read().peers_wait.total_s == pytest.approx(0.25)


class TestPercentiles:
    def test_are_those_of_the_updates_within_a_class(self) -> None:
        times = Times(total_s=50.0, counts={time_class(0.01): 90, time_class(2.0): 10})
        assert times.percentile(0.5) == pytest.approx(0.01, rel=0.05)
        assert times.percentile(0.95) == pytest.approx(2.0, rel=0.05)
        assert Times().percentile(0.5) == 0.0

    def test_no_time_is_no_time(self) -> None:
        assert middle_s(time_class(0.0)) == 0.0

    def test_a_node_without_updates_has_none(self) -> None:
        assert NodePace.of(None) is None
        assert NodePace.of(UpdatePace()) is None

    def test_successors_add_to_their_predecessors(self) -> None:
        first = UpdatePace(updates=2, rows=4, computing=Times(total_s=1.0, counts={3: 2}))
        both = first + UpdatePace(updates=1, rows=2, computing=Times(total_s=1.0, counts={3: 1}))
        assert (both.updates, both.rows, both.computing) == (3, 6, Times(total_s=2.0, counts={3: 3}))


@pytest.fixture
def host(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    def made(**files: str) -> tuple[Path, Path]:
        for name, content in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return tmp_path / "proc", tmp_path / "groups"

    return made


class TestTheHostsStrain:
    def test_is_read_where_linux_counts_it(self, host: Callable[..., tuple[Path, Path]]) -> None:
        places = host(
            proc__stat="cpu  1 2 3 4 5 6 7 800 0 0\ncpu0 1 2\n",
            proc__self__cgroup="0::/a/b\n",
            proc__pressure__memory="some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=1\n",
        )
        folder = places[1] / "a/b"
        folder.mkdir(parents=True)
        (folder / "cpu.stat").write_text("usage_usec 9\nnr_periods 3\nnr_throttled 2\nthrottled_usec 1500000\n")
        found = strain(*places)
        assert found.steal_s is not None
        assert found.steal_s > 0
        assert (found.throttled_s, found.memory_s) == (1.5, 2.5)

    def test_is_that_of_the_root_in_a_container_of_the_older_kind(self, host: Callable[..., tuple[Path, Path]]) -> None:
        places = host(proc__self__cgroup="4:cpu,cpuacct:/kubepods/x\n")
        folder = places[1] / "cpu,cpuacct"
        folder.mkdir(parents=True)
        (folder / "cpu.stat").write_text("nr_periods 3\nnr_throttled 2\nthrottled_time 1500000000\n")
        assert strain(*places).throttled_s == 1.5

    def test_is_unknown_where_nothing_is_counted(self, host: Callable[..., tuple[Path, Path]]) -> None:
        found = strain(*host())
        assert (found.steal_s, found.throttled_s, found.memory_s) == (None, None, None)
        assert found.in_words(found) == ""
