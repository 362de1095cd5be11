"""A gang whose members die in any step of any operation: the others go on with the same results, and lose none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sparktf.errors import PeerLostError
from sparktf.trainer.sync.exchange import linked, transfer
from sparktf.trainer.sync.exchange.link import Link
from sparktf.trainer.sync.exchange.linked import LinkedExchange, partners
from sparktf.trainer.sync.exchange.outliving import GenerationEnd, GenerationsExchange, SeenGeneration
from sparktf.trainer.sync.exchange.transfer import Array
from sparktf.wire.regrouping import RegroupedError

LIMIT_S = 20.0
LAST = 10
"""Number of a member's last operation."""


class KilledError(BaseException):
    """The member's process is gone."""


class Meetings:
    """Who decides on generations: the next one has all who have left the last, once no other is alive.

    Attributes:
        said: By generation and member, the operation that it stood at, and whether it was given a result.
    """

    def __init__(self, members: int) -> None:
        self.said: dict[tuple[int, int], tuple[int, bool]] = {}
        self._changed = threading.Condition()
        self._number = 1
        self._members = list(range(members))  # That live
        self._order = list(range(members))  # Of the present generation, also who has died since
        self._completed: dict[int, int] = {}
        self._operation = 0
        self._giver: int | None = None
        self._links: dict[int, dict[int, dict[int, Link]]] = {}
        self._endings: dict[int, GenerationEnd] = {}

    def first(self, member: int) -> SeenGeneration:
        """Returns the first generation."""
        return SeenGeneration(1, member, len(self._members), 0)

    def next(self, member: int, left: int, completed: int) -> SeenGeneration:
        """See `Regrouping`."""
        with self._changed:
            self._completed[member] = completed
            self._decide()
            assert self._changed.wait_for(lambda: self._number > left, LIMIT_S), f"member {member} waits for ever"
            order = self._order
            giver = None if self._giver is None else order.index(self._giver)
            return SeenGeneration(self._number, order.index(member), len(order), 0, self._operation, giver)

    def dies(self, member: int) -> None:
        """Notes the end of a member's process."""
        with self._changed:
            self._members = [other for other in self._members if other != member]
            if ending := self._endings.get(member):
                ending.end()
            for other in self._members:  # as the driver's order would
                if other not in self._completed and (ending := self._endings.get(other)):
                    ending.end()
            self._completed.pop(member, None)
            self._decide()

    def links(self, generation: SeenGeneration, ending: GenerationEnd, member: int) -> dict[int, Link]:
        """See `Regrouping`."""
        with self._changed:
            if generation.number not in self._links:
                self._links[generation.number] = _pairs(len(self._order), generation.number)
            self._endings[member] = ending
            return self._links[generation.number][generation.rank]

    def close(self) -> None:
        """Closes all links."""
        for links in (links for of in self._links.values() for links in of.values()):
            for link in links.values():
                link.close()

    def _decide(self) -> None:
        if self._members and self._completed.keys() == set(self._members):
            self._operation = max(self._completed.values())
            assert self._operation - min(self._completed.values()) <= 1
            uneven = min(self._completed.values()) < self._operation
            givers = [member for member in self._members if self._completed[member] == self._operation]
            self._giver = givers[0] if uneven else None
            self._completed.clear()
            self._order = list(self._members)
            self._number += 1
            self._changed.notify_all()


def _pairs(members: int, generation: int) -> dict[int, dict[int, Link]]:
    found: dict[int, dict[int, Link]] = {rank: {} for rank in range(members)}
    for low in range(members):
        for high in (rank for rank in partners(low, members) if rank > low):
            one, other = socket.socketpair()
            pair = (f"member {low} of {generation}", f"member {high} of {generation}")
            found[low][high] = Link(pair[1], one, pair=pair)
            found[high][low] = Link(pair[0], other, pair=pair)
    return found


class Way:
    """A member's way to the others."""

    def __init__(self, meetings: Meetings, member: int) -> None:
        self._meetings = meetings
        self._member = member

    def next(self, left: int, completed: int, error: PeerLostError, *, takes_in: bool) -> SeenGeneration:
        """See `Regrouping`."""
        del error, takes_in
        return self._meetings.next(self._member, left, completed)

    def meet(self, generation: SeenGeneration, end: GenerationEnd) -> LinkedExchange:
        """See `Regrouping`."""
        links = self._meetings.links(generation, end, self._member)
        for link in links.values():
            end.then(link.shut)
        return LinkedExchange(generation.rank, generation.members, 0, links, attempt=1, generation=generation.number)

    def regrouped(self, generation: SeenGeneration, *, was_given: bool) -> None:
        """See `Regrouping`."""
        self._meetings.said[generation.number, self._member] = (generation.operation, was_given)

    def settle(self) -> None:
        """See `Regrouping`."""


def values(member: int, size: int) -> Array:
    """Returns what a member brings to an operation: a bit of its own, so that a sum tells of whom it is."""
    return np.full(size, float(1 << member))


Log = dict[int, list[Any]]


def live(exchange: GenerationsExchange, member: int, log: list[Any], *, again: bool) -> None:
    """Makes some operations of each kind; notes what each gave. Nobody dies in the last one."""
    while not log or log[-1][0] != LAST:
        try:
            with exchange.again() if again else exchange.interruptible():
                for operation in range(sum(entry != "regrouped" for entry in log), LAST + 1):
                    found = make(exchange, member, operation)
                    log.append((operation, [array.tolist() for array in found]))
        except RegroupedError:
            log.append("regrouped")


def make(exchange: GenerationsExchange, member: int, operation: int) -> list[Array]:
    """Makes one operation, of a kind by its number."""
    mine = values(member, (3, 20_000, 1)[operation % 3])
    match operation % 5:
        case 2:
            return exchange.sum_and_gather([mine, mine[:1]], [np.full((member + 1, 2), float(member))])
        case 3:
            return exchange.gather(np.full(member + 1, float(member)))
        case 4:
            return exchange.from_leader([mine, np.array(operation)])
    return exchange.sum([mine, mine[:2]])


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], None]]]:
    """What happens before each step of an operation, of any member: it may be killed there."""
    before: list[Callable[[], None]] = []
    move = transfer.move

    def watched(*args: Any) -> None:
        for each in before:
            each()
        move(*args)

    monkeypatch.setattr(linked, "move", watched)
    yield before


def play(
    members: int, kills: Mapping[int, int], steps: list[Callable[[], None]], *, again: bool
) -> tuple[Log, Meetings, int]:
    """Plays a gang.

    Args:
        kills: Before which step of its own a member dies.

    Returns:
        What each has noted, who met, and the steps of the last member.
    """
    meetings, log = Meetings(members), {member: list[Any]() for member in range(members)}
    counts, me = dict.fromkeys(range(members), 0), threading.local()

    def step() -> None:
        member = me.member
        if any(entry[0] == LAST - 1 for entry in log[member]):
            return
        counts[member] += 1
        if counts[member] - 1 == kills.get(member):
            raise KilledError

    steps[:] = [step]

    def work(member: int) -> None:
        me.member = member
        exchange = GenerationsExchange(meetings.first(member), Way(meetings, member))
        try:
            live(exchange, member, log[member], again=again)
        except KilledError:
            exchange.close()
            meetings.dies(member)

    try:
        with ThreadPoolExecutor(members) as pool:
            list(pool.map(work, range(members)))
    finally:
        meetings.close()
    return log, meetings, counts[members - 1]


def check(log: Log, meetings: Meetings, killed: set[int]) -> None:
    """Checks that the survivors have the same results, each of all or of those that were left."""
    courses = {member: [entry for entry in log[member] if entry != "regrouped"] for member in log}
    survivors = [member for member in log if member not in killed]
    first = courses[survivors[0]]
    assert [operation for operation, _ in first] == list(range(LAST + 1))
    assert all(log[member] == log[survivors[0]] for member in survivors), "the survivors have different courses"
    for member in killed:  # what it alone has completed last is not known to anybody
        known = courses[member][:-1]
        assert known == first[: len(known)], f"member {member} had other results before it died"
    bits = [int(found[0][0]) for operation, found in first if operation % 5 in (0, 1)]
    assert all(later & ~earlier == 0 for earlier, later in pairwise(bits)), "a lost member has come back"
    assert bits[-1] == sum(1 << member for member in survivors)
    for number in {number for number, _ in meetings.said}:
        stood = {operation for (of, _), (operation, _) in meetings.said.items() if of == number}
        assert len(stood) == 1, f"generation {number} does not stand at one operation"


@pytest.mark.parametrize("again", [True, False], ids=["again", "interrupted"])
@pytest.mark.parametrize("members", [2, 3, 4])
def test_a_member_that_dies_before_any_step_costs_the_others_no_operation(
    members: int, again: bool, steps: list[Callable[[], None]]
) -> None:
    killed = members - 1
    _, _, most = play(members, {}, steps, again=again)
    assert most > 20
    for step in range(most):
        log, meetings, _ = play(members, {killed: step}, steps, again=again)
        check(log, meetings, {killed})
        assert meetings.said, f"killed before step {step}: nobody has regrouped"


@pytest.mark.parametrize("seed", range(40))
def test_nor_do_two_wherever_they_die_also_while_the_others_regroup(seed: int, steps: list[Callable[[], None]]) -> None:
    rng = np.random.default_rng(seed)
    kills = {int(member): int(rng.integers(0, 60)) for member in rng.choice(np.arange(1, 5), 2, replace=False)}
    log, meetings, _ = play(5, kills, steps, again=bool(seed % 2))
    died = {member for member in kills if not log[member] or log[member][-1][0] != LAST}
    check(log, meetings, died)


class OneGives:
    """A gang of two whose third member is lost in the first operation: the other one has its result, and gives it."""

    def __init__(self) -> None:
        self.met: list[int] = []

    def next(self, left: int, completed: int, error: PeerLostError, *, takes_in: bool) -> SeenGeneration:
        """See `Regrouping`."""
        return SeenGeneration(left + 1, 0, 2, 0, operation=completed + 1, giver=1, joined=frozenset({1}))

    def meet(self, generation: SeenGeneration, end: GenerationEnd) -> OneGives:
        """See `Regrouping`."""
        self.met.append(generation.number)
        return self

    def regrouped(self, generation: SeenGeneration, *, was_given: bool) -> None:
        """See `Regrouping`."""
        assert was_given

    def settle(self) -> None:
        """See `Regrouping`."""

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Meeting`."""
        raise PeerLostError("it has closed the connection")

    def gather(self, array: Array) -> list[Array]:
        """See `Meeting`."""
        return self.sum([array])

    def from_leader(self, arrays: Sequence[Array]) -> list[Array]:
        """See `Meeting`."""
        return self.sum(arrays)

    def from_member(self, giver: int, arrays: Sequence[Array]) -> list[Array]:
        """See `Meeting`."""
        forms = np.frombuffer(b'[["int64", [1]]]', np.uint8)
        told = {(): np.array([len(forms)]), (len(forms),): forms}
        return [told.get(array.shape if array.size > 1 else (), np.array([len(forms)])) for array in arrays]

    def fill(self, arrays: Sequence[Array], takers: Container[int]) -> list[Array]:
        """See `Meeting`."""
        return self.sum(arrays)

    def sum_and_gather(self, dense: Sequence[Array], rows: Sequence[Array]) -> list[Array]:
        """See `Meeting`."""
        return self.sum([*dense, *rows])

    def close(self) -> None:
        """See `Meeting`."""


def test_a_member_that_joins_meanwhile_is_not_taken_for_one_that_has_the_state() -> None:
    gang = OneGives()
    exchange = GenerationsExchange(SeenGeneration(1, 0, 2, 0, joined=frozenset({1})), gang)
    taken: list[int] = []

    def take_in() -> int:
        taken.append(exchange.generation)
        if exchange.generation == 1:
            exchange.fill([np.zeros(1)])  # its result comes from another member, in the next generation
        exchange.took_in()
        return exchange.generation

    assert exchange.whole(take_in) == 2
    assert (taken, gang.met, exchange.joined) == ([1, 2], [1, 2], False)
