"""Guards of the product, each taken out: what notices.

The names in brackets are those of old defects, whose mend is what is taken out.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

from simulation import async_mutants, evaluation_mutants, head_mutants, heads, publishing_mutants, survivors_mutants
from simulation.cases import CASES
from simulation.strategies import HEAD, LOCKSTEP, OBJECT_HEAD, PARAMETER_SERVER
from simulation.world import play, settle

from sparktf.clock import ListeningClock
from sparktf.driver.attempt.health import Failure, Lateness, Now, Since, late
from sparktf.driver.attempt.members import Members, Trainer
from sparktf.driver.attempt.rows.accounting import EpochAccount, is_wrong_before
from sparktf.driver.attempt.rows.ledger import Ledger
from sparktf.driver.attempt.saves import Save, Start, joined_save
from sparktf.driver.gang.roster import Roster
from sparktf.driver.lifecycle import AgentState
from sparktf.driver.output import ResultFile
from sparktf.errors import ErrorRecord, RefusedError, Verdict
from sparktf.feed.channel.staged_rows import StagedRows
from sparktf.feed.channel.staging import Staging
from sparktf.results.result import Application, RunResult
from sparktf.storage.transactions.checkpoints import MANIFEST, CheckpointStore, Manifest
from sparktf.storage.transactions.fence import Fence
from sparktf.storage.transactions.ownership import Seen, Step
from sparktf.topology import NodeId
from sparktf.wire.control import AgentHeartbeat, Order, Orders
from sparktf.wire.data import Lease, LeaseRequest
from sparktf.wire.sender import NodeMessage
from sparktf.wire.uploads import Uploaded


class Mutant(NamedTuple):
    """A guard of one strategy's runs, and what stands in its place: what to patch -> with what.

    Attributes:
        only: The only kinds of faults that are on in the seeds it is played with, where others would cover for it; ""
            for those that each seed draws.
    """

    guard: str
    patches: Mapping[str, Any]
    strategy: str = LOCKSTEP
    only: str = ""

    @property
    def kinds(self) -> frozenset[str] | None:
        """See `World`."""
        return frozenset(self.only.split()) or None


class Caught(NamedTuple):
    """The first seed that notices, -1 for none, and what it says."""

    guard: str
    seed: int
    said: str


def _any_attempt(message: NodeMessage, attempt: int, members: Members) -> Trainer:
    if message.node not in members:
        raise RefusedError("no such node")
    return members[message.node]


def _chief_alone(self: Any, uploads: Mapping[NodeId, Uploaded], members: Members, start: Start) -> Save | None:
    told = sorted(uploads.values(), key=lambda upload: upload.node.index)
    return joined_save(start, told) if told and told[0].node.index == 0 else None


def _last_told(failures: Sequence[ErrorRecord]) -> ErrorRecord:
    return max(failures, key=lambda failure: (failure.peer, failure.time_s))


def _first_told(failures: Iterable[ErrorRecord]) -> ErrorRecord:
    return min(failures, key=lambda failure: (failure.peer, failure.time_s))


def _late_alone(
    trainers: Sequence[Trainer], failures: Sequence[Failure], now: Now, since: Since, timeouts: Any, movers: Any
) -> list[Lateness]:
    return [] if failures else list(late(trainers, now.s, since, timeouts, movers))


def _wrong_but_for_bad_rows(epoch: int, accounts: Iterable[EpochAccount], max_aside: int) -> bool:
    del max_aside
    return is_wrong_before(epoch, accounts, 1 << 60)


def _never_silent(
    trainers: Sequence[Trainer], failures: Sequence[Failure], now: Now, since: Since, timeouts: Any, movers: Any
) -> list[Lateness]:
    deaf = timeouts.model_copy(update={"heartbeat": 1e9})
    return [] if failures else list(late(trainers, now.s, since, deaf, movers))


def _settled(trainers: Any, failures: Any, now_s: float, silence_s: float, *, done: bool) -> Any:
    from sparktf.driver.attempt.health import decide

    return decide([], failures, now_s, silence_s, done=done)


def _deleted_first(self: Fence, held: str, target: str) -> None:
    with self.guarded():
        self._storage.delete(target)
        self._storage.rename(held, target)


def _anybodys_result(self: ResultFile, result: RunResult, steps: Any = ()) -> None:
    self._storage.write_bytes(self._rundir.result, result.model_dump_json().encode())


def _nothing_stands(self: ResultFile) -> None:
    return None


def _taken_at_once(seen: Seen, application: Application, limit_s: float) -> Step:
    return Step.TAKE


_heartbeat = Roster.heartbeat


def _sent_home(self: Roster, message: AgentHeartbeat) -> Orders:
    agent = self._known(message.agent)
    return Orders(order=Order.DISMISS) if agent.state is AgentState.LOST else _heartbeat(self, message)


_exited = Roster.trainer_exited


def _ended_again(self: Roster, message: Any) -> Any:
    self._known(message.agent).ended.clear()
    return _exited(self, message)


_leased = Ledger.lease


def _anybodys_lease(self: Ledger, message: LeaseRequest) -> Lease:
    self.book(message.span.stream, message.span.epoch).leases.pop(message.span.split, None)
    return _leased(self, message)


def _any_count(self: Any, context: Any, descriptor: Any, reader: Iterable[Any], writer: Any) -> None:
    span = self._span(descriptor.command)
    rows = self._stagings[span.stream].new_rows()
    for chunk in reader:
        if chunk.data is not None:
            rows.append(chunk.data)
    held = self._answered(lambda: self._stagings[span.stream].seal(span.epoch, span.split, rows, self._wire))
    self._answered(lambda: self._sealed(span, held))


_seal = Staging.seal


def _sealed_again(self: Staging, epoch: int, split: int, rows: StagedRows, wire: str, **more: Any) -> int:
    self._splits.pop(split, None)
    return _seal(self, epoch, split, rows, wire, **more)


def _nothing(*arguments: Any, **named: Any) -> list[Any]:
    return []


def _by_the_other_clock(self: ListeningClock) -> float:
    return self._clock.now_s()


def _latest_unread(self: CheckpointStore) -> tuple[Manifest, str] | None:
    folders = [self._rundir.checkpoint(step) for step in self.list()]
    if not folders:
        return None
    return Manifest.model_validate_json(self._storage.read_bytes(f"{folders[-1]}/{MANIFEST}")), folders[-1]


MUTANTS = (
    Mutant(
        "fence: a new driver moves the old one's away",
        {"sparktf.storage.transactions.fence.Fence._sweep": _nothing},
        only="driver-frozen driver-twice",
    ),
    Mutant(
        "[1] a model is replaced through the fence",
        {"sparktf.storage.transactions.fence.Fence.replace": _deleted_first},
        only="driver-frozen driver-twice",
    ),
    Mutant("owner of result.json", {"sparktf.driver.output.ResultFile.write": _anybodys_result}),
    Mutant(
        "a run that another has done is left alone",
        {"sparktf.driver.output.ResultFile.standing": _nothing_stands},
        only="driver-twice",
    ),
    Mutant("an owner at work keeps the run", {"sparktf.storage.transactions.ownership.next_step": _taken_at_once}),
    Mutant("messages of older attempts are refused", {"sparktf.driver.attempt.crew.speaker": _any_attempt}),
    Mutant("all nodes have uploaded", {"sparktf.driver.attempt.disciplines.Lockstep.saved": _chief_alone}),
    Mutant(
        "rows of the cursor are not dealt again",
        {"sparktf.driver.attempt.rows.shares.remaining": lambda rows, done: [(0, rows)]},
    ),
    Mutant("sizes and checksums of a commit", {"sparktf.storage.transactions.checkpoints.verify_files": _nothing}),
    Mutant(
        "order of causes",
        {"sparktf.driver.gang.seating.root_cause": _last_told, "sparktf.driver.attempt.restart.root_cause": _last_told},
    ),
    Mutant(
        "a link that is cut is the cause where its ends have left others",
        {
            "sparktf.driver.gang.seating.root_cause": _first_told,
            "sparktf.driver.attempt.restart.root_cause": _first_told,
        },
        only="link-cut clocks-differ",
    ),
    Mutant(
        "late and silent trainers are found",
        {"sparktf.driver.attempt.standing.missed": _nothing},
        only="trainer-freezes",
    ),
    Mutant(
        "a silent trainer is missed before all stand still",
        {"sparktf.driver.attempt.standing.missed": _never_silent},
        only="trainer-freezes",
    ),
    Mutant(
        "[7] a silent trainer is looked for while only peers have spoken",
        {"sparktf.driver.attempt.standing.missed": _late_alone, "sparktf.driver.attempt.standing.decide": _settled},
    ),
    Mutant("[6] an agent that was lost begins anew", {"sparktf.driver.gang.roster.Roster.heartbeat": _sent_home}),
    Mutant("an end that is told again", {"sparktf.driver.gang.roster.Roster.trainer_exited": _ended_again}),
    Mutant(
        "[9] what cannot be stored is not trained again",
        {"sparktf.driver.attempt.restart.may_be_mended": lambda cause: cause.verdict is Verdict.INFRASTRUCTURE},
    ),
    Mutant(
        "a node that was taken back costs no attempt",
        {"sparktf.driver.attempt.restart.reason_taken_back": lambda cause, taken_back: ""},
        only="node-preempted",
    ),
    Mutant(
        "a run whose nodes are taken back again and again, and which gets nowhere, is given up",
        {"sparktf.driver.attempt.restart.given_up": lambda cause, in_vain: None},
        only="node-preempted",
    ),
    Mutant("a split is leased to one node", {"sparktf.driver.attempt.rows.ledger.Ledger.lease": _anybodys_lease}),
    Mutant(
        "a split has as many rows as its feeder says", {"sparktf.feed.channel.server.SplitServer.do_put": _any_count}
    ),
    Mutant("a split that comes again is dropped", {"sparktf.feed.channel.staging.Staging.seal": _sealed_again}),
    Mutant(
        "[10] no checkpoint after an epoch whose rows do not add up",
        {"sparktf.driver.attempt.attempt.is_wrong_before": lambda epoch, accounts, max_aside: False},
    ),
    Mutant(
        "an epoch waits for the words of one that is lost",
        {"sparktf.driver.attempt.reporters.Reporters.told_of": property(lambda self: len(self.nodes))},
    ),
    Mutant(
        "no checkpoint after an epoch with too many bad rows",
        {"sparktf.driver.attempt.attempt.is_wrong_before": _wrong_but_for_bad_rows},
        only="driver-twice",
        strategy=PARAMETER_SERVER,
    ),
    Mutant(
        "a checkpoint waits for the words of all about the epochs before it",
        {"sparktf.driver.attempt.attempt.are_told_before": lambda epoch, accounts: True},
        only="trainer-dies",
    ),
    Mutant(
        "a checkpoint that is not whole is passed over",
        {"sparktf.storage.transactions.checkpoints.CheckpointStore.latest": _latest_unread},
    ),
    Mutant("a driver that stood still has heard nobody", {"sparktf.clock.ListeningClock.now_s": _by_the_other_clock}),
    *(Mutant(guard, patches) for guard, patches in evaluation_mutants.GUARDS.items()),
    *(
        Mutant(guard, patches, only=survivors_mutants.ONLY.get(guard, "trainer-dies"))
        for guard, patches in survivors_mutants.GUARDS.items()
    ),
    *(Mutant(guard, patches, HEAD) for guard, patches in head_mutants.GUARDS.items()),
    *(Mutant(guard, patches, OBJECT_HEAD) for guard, patches in head_mutants.OF_OBJECTS.items()),
    *(
        Mutant(guard, patches, only=publishing_mutants.ONLY.get(guard, ""))
        for guard, patches in publishing_mutants.GUARDS.items()
    ),
    *(
        Mutant(guard, patches, PARAMETER_SERVER, async_mutants.ONLY.get(guard, ""))
        for guard, patches in async_mutants.GUARDS.items()
    ),
)


@contextmanager
def without(guard: str) -> Iterator[Mutant]:
    """Takes a guard out."""
    (mutant,) = (mutant for mutant in MUTANTS if mutant.guard == guard)
    with ExitStack() as stack:
        for target, instead in mutant.patches.items():
            stack.enter_context(mock.patch(target, instead))
        yield mutant


def caught(job: tuple[str, int, int]) -> Caught:
    """Returns which of some seeds is the first to notice that a guard is missing; after them its own case is tried."""
    guard, first, seeds = job
    own = [(case.seed, case.kinds) for case in CASES if case.guard == guard]
    with without(guard) as mutant:
        for seed, kinds in [*((seed, mutant.kinds) for seed in range(first, first + seeds)), *own]:
            if found := _violations(mutant, seed, kinds):
                return Caught(guard, seed, found[0])
    return Caught(guard, -1, "nothing")


def _violations(mutant: Mutant, seed: int, kinds: frozenset[str] | None) -> list[str]:
    if mutant.strategy == HEAD:
        return heads.play(seed).violations
    if mutant.strategy == OBJECT_HEAD:
        return heads.play(seed, heads.OBJECT).violations
    return play((seed, None, mutant.strategy), kinds).violations


def print_table(seeds: int, first: int, strategy: str | None, processes: int) -> int:
    """Takes out each guard in turn, and prints what noticed; returns how many nobody missed."""
    missed = 0
    jobs = [(mutant.guard, first, seeds) for mutant in MUTANTS if strategy in (None, mutant.strategy)]
    each: Callable[[tuple[str, int, int]], Caught] = caught
    with multiprocessing.get_context("spawn").Pool(processes, settle) as pool:
        for found in pool.imap(each, jobs):
            missed += found.seed < 0
            seed = f"seed {found.seed}" if found.seed >= 0 else "NO SEED"
            print(f"{found.guard:70} {seed:>9}  {found.said[:160]}", flush=True)
    print(f"{len(jobs) - missed} of {len(jobs)} guards are noticed when they are gone")
    return missed
