"""The state of an attempt, and the consequences of the time passed: a function of its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparktf.config.timeouts import TimeoutsConfig
from sparktf.driver.attempt.discipline import Fail, Leave, Replace
from sparktf.driver.attempt.evaluation import Evaluating
from sparktf.driver.attempt.health import (
    Failure,
    Lateness,
    Now,
    Outcome,
    Since,
    decide,
    gone,
    left_behind,
    loss,
    missed,
)
from sparktf.driver.attempt.losses import Losses, StandIn
from sparktf.driver.attempt.members import Members, Trainer, started_s
from sparktf.driver.attempt.reporters import Reporters
from sparktf.driver.lifecycle import TrainerState
from sparktf.errors import ErrorRecord
from sparktf.wire.control import AWAITS_EXPORT


class Known(NamedTuple):
    """The state of an attempt."""

    members: Members
    failures: Sequence[Failure]  # In the order of their reports
    losses: Losses
    evaluation: Evaluating
    reporters: Reporters  # The nodes that make the run's steps
    since: Since  # When the attempt began, and when Spark last gave rows
    beat_s: float  # Interval of a trainer's heartbeats


class Standing(NamedTuple):
    """An attempt's state at one moment, and the changes that `Attempt.apply` is to note."""

    outcome: Outcome
    failures: tuple[Failure, ...]  # New ones, which no node told
    # Silent or late trainers without which the attempt goes on, each with its loss
    lost: tuple[tuple[Trainer, ErrorRecord], ...]
    stand_in: StandIn  # Workers whose places no trainer took in time
    evaluation: Evaluating  # The new state of the evaluator
    # Why nobody follows those that are lost, where too few are left that store what they have; then they fail
    too_few: ErrorRecord | None


def standing(known: Known, now: Now, timeouts: TimeoutsConfig) -> Standing:
    """Looks for late trainers and places that stay vacant, then returns the attempt's state."""
    members, evaluation = known.members, known.evaluation
    lost: list[tuple[Trainer, ErrorRecord]] = []
    failures = _misled(known, now, timeouts) or _headless(known, now)
    for late in _late(known, now, timeouts) if not failures else ():
        record = loss(late.trainer, late.what, now.wall_s - (now.s - late.since_s))
        ruling, lost_now = evaluation.on_loss(late.trainer, record, members), [trainer.node for trainer, _ in lost]
        ruling = known.reporters.confirmed(ruling, late.trainer.node, record, lost_now)
        if isinstance(ruling, Leave) and late.stands_still:
            ruling = Fail(record)  # all stand still together, and nobody knows for whom
        if isinstance(ruling, Fail):
            failures.append(Failure(ruling.record, now.s, is_silence=True, heard_s=late.trainer.heard_s))
        if isinstance(ruling, Replace | Leave):
            lost.append((late.trainer, record))
    vacancies = known.losses.vacant(members)
    evaluation = evaluation.at(now.s, members, vacancies, timeouts.replace)
    needed = [vacancy for vacancy in evaluation.vacant(vacancies) if vacancy.node != evaluation.node]
    overdue = known.losses.overdue(needed, evaluation.others(members), now.s, timeouts.replace)
    stand_in = overdue if isinstance(overdue, StandIn) else StandIn({})
    too_few = overdue if isinstance(overdue, ErrorRecord) else None
    if too_few is not None and not known.failures and not failures and not known.reporters.may_store:
        failures.append(Failure(too_few, now.s))
    done, all_failures = evaluation.is_done(members), [*known.failures, *failures]
    outcome = decide(members.values(), all_failures, now.s, timeouts.heartbeat, done=done)
    return Standing(outcome, tuple(failures), tuple(lost), stand_in, evaluation, too_few)


def _misled(known: Known, now: Now, timeouts: TimeoutsConfig) -> list[Failure]:
    movers = [known.members[node] for node in known.reporters.nodes]
    misled = None if known.failures else left_behind(movers, now, known.since.fed_s, timeouts)
    return [] if misled is None else [Failure(misled, now.s)]


def _headless(known: Known, now: Now) -> list[Failure]:
    """Returns why nobody ends the work: the leader is lost, and who has finished takes no other's place."""
    reporters, generations = known.reporters, known.reporters.generations
    if known.failures or generations is None or not (generations.is_headless or generations.is_closing):
        return []
    if not any(known.members[node].state is TrainerState.FINISHED for node in reporters.nodes):
        return []
    record = reporters.closed_by or known.losses.last_of(generations.present.leader)
    return [] if record is None else [Failure(record, now.s)]


def _late(known: Known, now: Now, timeouts: TimeoutsConfig) -> list[Lateness]:
    members, losses = known.members, known.losses
    movers = [members[node] for node in known.reporters.nodes]
    # Until Spark last gave rows, or had given all, nodes that got none have waited for that.
    held_up = [t.node for t in movers if losses.may_hold_up(t, members, now.s, timeouts)]
    since = Since(started_s(members, known.since.started_s), known.since.fed_s, held_up)
    busy = [t.node for t in movers if t.node not in known.reporters.waiting and t.progress.phase != AWAITS_EXPORT]
    may_be_late = known.evaluation.movers(busy)
    found = missed(members.values(), known.failures, now, since, timeouts, may_be_late)
    ended = gone([members[node] for node in known.reporters.gone], now.s, known.beat_s)
    return [*found, *(late for late in ended if late.trainer not in [other.trainer for other in found])]
