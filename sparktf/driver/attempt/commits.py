"""Which commits an evaluator reads, and which may be removed meanwhile: functions of the known commits."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparktf.results.keep import Evaluation, KeepRule
from sparktf.sequence import Cursor
from sparktf.wire.restore import BestWeights, Committed, NextCommit, Restore


@dataclass(frozen=True, slots=True)
class KnownCommits:
    """Commits and results."""

    there: tuple[Committed, ...] = ()  # Commits that may be read, oldest first
    # By step, of evaluated commits; None without metrics
    results: Mapping[int, Evaluation | None] = field(default_factory=dict)
    reading: int | None = None  # Step of the commit being read
    is_whole: bool = False  # Nothing more will be committed


def next_commit(known: KnownCommits) -> Committed | None:
    """Returns the commit to evaluate next: the newest, unless it is evaluated already. Older ones are skipped."""
    newest = known.there[-1] if known.there else None
    return None if newest is None or newest.step in known.results else newest


def is_over(known: KnownCommits) -> bool:
    """Whether nothing is left to evaluate, now or later: the last commit is evaluated."""
    return known.is_whole and next_commit(known) is None


def best_commit(known: KnownCommits, rule: KeepRule | None) -> BestWeights | None:
    """Returns the best evaluated commit that still exists; None without a rule, or without numbers."""
    results = (known.results.get(commit.step) for commit in known.there)
    best = rule.best(result for result in results if result is not None) if rule is not None else None
    if best is None:
        return None
    found = next(commit for commit in known.there if commit.step == best.step)
    return BestWeights(evaluation=best, path=found.path, files=found.files)


def may_go(known: KnownCommits, steps: Sequence[int], rule: KeepRule | None) -> tuple[int, ...]:
    """Returns which of these outdated commits may be removed: not the one being read, nor the best."""
    best = best_commit(known, rule)
    stay = {known.reading, None if best is None else best.evaluation.step}
    return tuple(step for step in steps if step not in stay)


def epoch_of(cursor: Cursor) -> int:
    """Returns the epoch of the last step before a cursor; `BEGUN` before the first step."""
    return cursor.epoch if cursor.rows else cursor.epoch - 1


class Commits:
    """The commits of one attempt, as its evaluator learns of them.

    Thread-safe: the committing thread reports to it, and asks what may go, without the lock that nodes report under.
    """

    def __init__(self, restore: Restore | None = None) -> None:
        """Begins with the restored weights of an attempt, and the best before."""
        self._lock = threading.Lock()
        self._known = KnownCommits()
        if restore is None:
            return
        if best := restore.best:
            e = best.evaluation
            self.add(Committed(path=best.path, step=e.step, epoch=e.epoch, files=best.files))
            self.evaluated(e)
        if restore.best is None or restore.best.evaluation.step != restore.step:
            epoch = epoch_of(restore.cursor)
            self.add(Committed(path=restore.path, step=restore.step, epoch=epoch, files=restore.files))
        if restore.evaluated:
            with self._lock:
                results = {restore.step: None, **self._known.results}
                self._known = replace(self._known, results=results)

    def add(self, commit: Committed) -> None:
        """Notes a commit, the newest."""
        with self._lock:
            self._known = replace(self._known, there=(*self._known.there, commit))

    def evaluated(self, evaluation: Evaluation) -> None:
        """Notes a result; a repeated one counts once."""
        with self._lock:
            known = self._known
            reading = None if known.reading == evaluation.step else known.reading
            self._known = replace(known, results={**known.results, evaluation.step: evaluation}, reading=reading)

    def end(self) -> None:
        """Notes that nothing more will be committed."""
        with self._lock:
            self._known = replace(self._known, is_whole=True)

    def next(self, rule: KeepRule | None) -> NextCommit:
        """Returns the evaluator's next commit, being read from now on; `rule`, if any, chooses the best weights."""
        with self._lock:
            commit = next_commit(self._known)
            self._known = replace(self._known, reading=commit.step if commit else None)
            if not is_over(self._known):
                return NextCommit(commit=commit)
            there = self._known.there
            return NextCommit(is_over=True, best=best_commit(self._known, rule), last=there[-1] if there else None)

    def release(self, steps: Sequence[int], rule: KeepRule | None) -> tuple[int, ...]:
        """Returns which of these commits may be removed now: from then on nobody is told to read them."""
        with self._lock:
            going = may_go(self._known, steps, rule)
            there = tuple(commit for commit in self._known.there if commit.step not in going)
            self._known = replace(self._known, there=there)
            return going
