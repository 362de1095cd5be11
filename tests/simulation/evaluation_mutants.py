"""Guards of evaluation, each taken out: what stands in their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparktf.driver.attempt import commits
from sparktf.driver.attempt.commits import KnownCommits
from sparktf.driver.attempt.discipline import Fail, GoOn, Leave, Replace
from sparktf.driver.attempt.evaluation import Evaluating
from sparktf.driver.attempt.members import Members, Trainer
from sparktf.errors import ErrorRecord
from sparktf.results.keep import KeepRule

_may_go = commits.may_go
_on_loss = Evaluating.on_loss


def _without_what_is_read(known: KnownCommits, steps: Sequence[int], rule: KeepRule | None) -> tuple[int, ...]:
    return _may_go(KnownCommits(known.there, known.results, None, known.is_whole), steps, rule)


def _without_the_best(known: KnownCommits, steps: Sequence[int], rule: KeepRule | None) -> tuple[int, ...]:
    return _may_go(known, steps, None)


def _failed(self: Evaluating, member: Trainer, record: ErrorRecord, members: Members) -> Fail | Replace | Leave | GoOn:
    ruling = _on_loss(self, member, record, members)
    return Fail(record) if isinstance(ruling, Replace) and member.node == self.node else ruling


_COMMITS = "sparktf.driver.attempt.commits"

GUARDS: Mapping[str, Mapping[str, Any]] = {
    "a checkpoint that an evaluator reads stays": {f"{_COMMITS}.may_go": _without_what_is_read},
    "the best checkpoint stays beside an evaluator": {f"{_COMMITS}.may_go": _without_the_best},
    "the best checkpoint stays": {"sparktf.driver.commit.Committer._best_of": lambda self, commit, keep: None},
    "a run ends when its last commit is evaluated": {f"{_COMMITS}.is_over": lambda known: known.is_whole},
    "a run goes on without its evaluator": {"sparktf.driver.attempt.evaluation.Evaluating.on_loss": _failed},
    "the best weights of earlier attempts count": {"sparktf.driver.commit.Committer._best_weights": lambda self: None},
}
"""Guard -> what to patch -> with what."""
