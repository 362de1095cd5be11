"""The state of an attempt, and the consequences of the time passed: a function of its state."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sparktf.config.timeouts import TimeoutsConfig
from sparktf.driver.attempt.discipline import Fail, Replace
from sparktf.driver.attempt.evaluation import Evaluating
from sparktf.driver.attempt.health import Failure, Lateness, Now, Outcome, Since, decide, left_behind, loss, missed
from sparktf.driver.attempt.losses import Losses, StandIn
from sparktf.driver.attempt.members import Members, Trainer, started_s
from sparktf.errors import ErrorRecord
from sparktf.topology import NodeId


class Known(NamedTuple):
    """The state of an attempt."""

    members: Members
    failures: Sequence[Failure]  # In the order of their reports
    losses: Losses
    evaluation: Evaluating
    reporters: Collection[NodeId]  # The nodes that make the run's steps
    since: Since  # When the attempt began, and when Spark last gave rows


class Standing(NamedTuple):
    """An attempt's state at one moment, and the changes that `Attempt.apply` is to note."""

    outcome: Outcome
    failures: tuple[Failure, ...]  # New ones, which no node told
    # Silent or late trainers without which the attempt goes on, each with its loss
    lost: tuple[tuple[Trainer, ErrorRecord], ...]
    stand_in: StandIn  # Workers whose places no trainer took in time
    evaluation: Evaluating  # The new state of the evaluator


def standing(known: Known, now: Now, timeouts: TimeoutsConfig) -> Standing:
    """Looks for late trainers and places that stay vacant, then returns the attempt's state."""
    members, evaluation, lost = known.members, known.evaluation, []
    failures = _misled(known, now, timeouts)
    for late in _late(known, now, timeouts) if not failures else ():
        record = loss(late.trainer, late.what, now.wall_s - (now.s - late.since_s))
        ruling = evaluation.on_loss(late.trainer, record, members)
        if isinstance(ruling, Fail):
            failures.append(Failure(ruling.record, now.s, is_silence=True, heard_s=late.trainer.heard_s))
        if isinstance(ruling, Replace):
            lost.append((late.trainer, record))
    vacancies = known.losses.vacant(members)
    evaluation = evaluation.at(now.s, members, vacancies, timeouts.replace)
    needed = [vacancy for vacancy in evaluation.vacant(vacancies) if vacancy.node != evaluation.node]
    overdue = known.losses.overdue(needed, evaluation.others(members), now.s, timeouts.replace)
    stand_in = overdue if isinstance(overdue, StandIn) else StandIn({})
    if isinstance(overdue, ErrorRecord) and not known.failures and not failures:
        failures.append(Failure(overdue, now.s))
    done, all_failures = evaluation.is_done(members), [*known.failures, *failures]
    outcome = decide(members.values(), all_failures, now.s, timeouts.heartbeat, done=done)
    return Standing(outcome, tuple(failures), tuple(lost), stand_in, evaluation)


def _misled(known: Known, now: Now, timeouts: TimeoutsConfig) -> list[Failure]:
    movers = [known.members[node] for node in known.reporters]
    misled = None if known.failures else left_behind(movers, now, known.since.fed_s, timeouts)
    return [] if misled is None else [Failure(misled, now.s)]


def _late(known: Known, now: Now, timeouts: TimeoutsConfig) -> list[Lateness]:
    members, losses = known.members, known.losses
    movers = [members[node] for node in known.reporters]
    # Until Spark last gave rows, or had given all, nodes that got none have waited for that.
    held_up = [t.node for t in movers if losses.may_hold_up(t.heard_s, members, now.s, timeouts)]
    since = Since(started_s(members, known.since.started_s), known.since.fed_s, held_up)
    may_be_late = known.evaluation.movers(known.reporters)
    return missed(members.values(), known.failures, now, since, timeouts, may_be_late)
