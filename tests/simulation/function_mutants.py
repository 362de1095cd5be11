"""Guards of gangs that run functions, each taken out, and what a seed says then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

from sparktf.driver.attempt.functions import Functions
from sparktf.driver.attempt.health import Failure, Outcome
from sparktf.driver.attempt.members import Trainer
from sparktf.errors import ErrorRecord
from sparktf.feed.channel.brought_rows import BroughtRows
from sparktf.feed.channel.guest_queue import GuestQueue
from sparktf.topology import NodeId


class FunctionMutant(NamedTuple):
    """A guard, and what stands in its place: what to patch -> with what.

    Attributes:
        said: What a seed says that notices.
        kinds: The only kinds of faults that are on; None for those that a seed draws.
    """

    patches: Mapping[str, Any]
    said: str
    kinds: frozenset[str] | None = None


def _nobody(*_: object) -> list[Any]:
    return []


def _unnoticed(functions: Functions, trainer: Trainer, record: ErrorRecord) -> None:
    del functions, trainer, record


def _last_told(failures: Sequence[ErrorRecord]) -> ErrorRecord:
    return failures[-1]


def _at_once(trainers: object, failures: Sequence[Failure], now_s: float, silence_s: float, *, done: bool) -> Outcome:
    del trainers, now_s, silence_s
    return Outcome.FAILED if failures else Outcome.DONE if done else Outcome.RUNNING


def _all_nodes(functions: Functions) -> list[NodeId]:
    return list(functions.guests)


def _always(functions: Functions, trainer: Trainer, record: ErrorRecord) -> None:
    del trainer
    functions.fail(record)


def _any_rows(queue: GuestQueue) -> None:
    while not queue._waiting and not queue._ended and not queue._terminated:
        queue._check()
        queue._clock.wait(queue._changed, 0.5)


def _never(stream: BroughtRows, moved_s: float, now_s: float) -> float:
    del stream, moved_s, now_s
    return 1e9


def _not_at_all(*_: object) -> bool:
    return False


IS_BAD, JOINS = frozenset({"function-is-bad"}), frozenset({"function-joins"})

GUARDS: Mapping[str, FunctionMutant] = {
    "functions that fall silent are looked for": FunctionMutant(
        {"sparktf.driver.attempt.functions.missed": _nobody}, "told", frozenset({"function-hangs"})
    ),
    "a process that ends before its function has returned is a failure": FunctionMutant(
        {"sparktf.driver.attempt.functions.Functions._lost": _unnoticed}, "told"
    ),
    "what failed first is the cause, and not what was told last": FunctionMutant(
        {"sparktf.driver.attempt.functions.root_cause": _last_told}, "the cause"
    ),
    "a failure is settled before it is told": FunctionMutant(
        {"sparktf.driver.attempt.functions.decide": _at_once}, "the cause"
    ),
    "nobody waits for servers": FunctionMutant(
        {"sparktf.driver.attempt.functions.Functions._working": _all_nodes},
        "nothing has happened to those",
        frozenset(),
    ),
    "nobody waits for a node within a server's join()": FunctionMutant(
        {"sparktf.driver.attempt.functions.SERVES": "never"}, "nothing has happened to those", JOINS
    ),
    "rows of the next partition are handed out once all rows before them are answered": FunctionMutant(
        {"sparktf.feed.channel.guest_queue.GuestQueue._await_next": _any_rows}, "got", IS_BAD
    ),
    "a function that neither takes rows nor gives results is late": FunctionMutant(
        {"sparktf.feed.channel.brought_rows.BroughtRows.due_in_s": _never}, "does not end", IS_BAD
    ),
    "a function that stays after the end of its rows is late": FunctionMutant(
        {"sparktf.feed.channel.guest_queue.GuestQueue._goes_on": _not_at_all}, "told after", IS_BAD
    ),
    "a function that returns has left no results out": FunctionMutant(
        {"sparktf.feed.channel.guest_queue.GuestQueue.returned": GuestQueue.terminate}, "results were left out", IS_BAD
    ),
    "a process that ends after its function has returned is none": FunctionMutant(
        {"sparktf.driver.attempt.functions.Functions._lost": _always}, "to which nothing had happened"
    ),
}


@contextmanager
def without(guard: str) -> Iterator[FunctionMutant]:
    """Takes a guard out."""
    with ExitStack() as stack:
        for target, instead in GUARDS[guard].patches.items():
            stack.enter_context(mock.patch(target, instead))
        yield GUARDS[guard]
