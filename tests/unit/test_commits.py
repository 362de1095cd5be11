"""What an evaluator reads next, and what may be removed meanwhile."""

from __future__ import annotations

import pytest

from sparktf.driver.attempt.commits import Commits, KnownCommits, best_commit, epoch_of, is_over, may_go, next_commit
from sparktf.results.keep import Evaluation, KeepRule
from sparktf.sequence import Cursor
from sparktf.wire.restore import BestWeights, Committed, Restore

RULE = KeepRule(metric="loss", mode="min")


def commit(step: int) -> Committed:
    return Committed(path=f"/c/{step}", step=step, epoch=0, files=(f"ckpt-{step}",))


def result(step: int, loss: float = 1.0) -> Evaluation:
    return Evaluation(epoch=0, step=step, rows=5, values={"loss": loss})


def known(*steps: int, reading: int | None = None, is_whole: bool = False, **losses: float) -> KnownCommits:
    """Commits that are there; `at_10=0.5`: the one at step 10 has this loss."""
    results = {int(name.removeprefix("at_")): loss for name, loss in losses.items()}
    return KnownCommits(
        there=tuple(commit(step) for step in steps),
        results={step: result(step, loss) for step, loss in results.items()},
        reading=reading,
        is_whole=is_whole,
    )


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (known(), None),
        (known(10), 10),
        (known(10, 20, 30), 30),
        (known(10, 20, at_10=1.0), 20),
        (known(10, 20, at_20=1.0), None),
        (known(10, 20, reading=20), 20),
    ],
    ids=["nothing yet", "the first", "the newest", "what is new", "no older one", "what a lost one was reading"],
)
def test_the_newest_commit_is_evaluated_next_and_older_ones_are_left_out(state: KnownCommits, step: int | None) -> None:
    found = next_commit(state)
    assert (found.step if found else None) == step


@pytest.mark.parametrize(
    ("state", "over"),
    [
        (known(10, at_10=1.0), False),
        (known(10, is_whole=True), False),
        (known(10, 20, is_whole=True, at_10=1.0), False),
        (known(10, 20, is_whole=True, at_20=1.0), True),
        (known(is_whole=True), True),
    ],
    ids=["more may come", "none is evaluated", "the last is not", "the last is", "nothing was committed"],
)
def test_it_is_over_when_the_last_commit_is_evaluated(state: KnownCommits, *, over: bool) -> None:
    assert is_over(state) is over


@pytest.mark.parametrize(
    ("state", "rule", "going"),
    [
        (known(10, 20, 30), None, (10, 20)),
        (known(10, 20, 30, reading=20), None, (10,)),
        (known(10, 20, 30, at_10=0.1, at_20=0.2), RULE, (20,)),
        (known(10, 20, 30, at_10=0.2, at_20=0.1), RULE, (10,)),
        (known(10, 20, 30, reading=20, at_10=0.2), RULE, ()),
        (known(10, 20, 30, at_5=0.01, at_20=0.1), RULE, (10,)),
    ],
    ids=["all", "what is read stays", "the best", "a better one", "both", "the best of those that are there"],
)
def test_what_is_read_and_the_best_are_not_removed(
    state: KnownCommits, rule: KeepRule | None, going: tuple[int, ...]
) -> None:
    assert may_go(state, (10, 20), rule) == going


def test_the_best_is_named_with_its_files_and_not_at_all_without_a_rule_or_a_number() -> None:
    state = known(10, 20, at_10=0.5, at_20=float("nan"))
    assert best_commit(state, RULE) == BestWeights(evaluation=result(10, 0.5), path="/c/10", files=("ckpt-10",))
    assert best_commit(state, None) is None
    assert best_commit(known(20, at_20=float("nan")), RULE) is None


@pytest.mark.parametrize(
    ("cursor", "epoch"),
    [(Cursor(), -1), (Cursor(epoch=0, done=((0, 5),)), 0), (Cursor(epoch=1), 0), (Cursor(epoch=1, done=((0, 5),)), 1)],
    ids=["at the beginning", "inside an epoch", "at an epoch's end", "inside a later one"],
)
def test_a_commit_belongs_to_the_epoch_of_its_last_step(cursor: Cursor, epoch: int) -> None:
    assert epoch_of(cursor) == epoch


def test_from_the_first_commit_to_the_last() -> None:
    commits = Commits()
    assert commits.next(RULE).commit is None
    commits.add(commit(10))
    assert commits.next(RULE).commit == commit(10)
    for step in (20, 30):
        commits.add(commit(step))
    assert commits.release((10, 20), RULE) == (20,), "10 is being read"
    commits.evaluated(result(10, 0.1))
    assert commits.next(RULE).commit == commit(30)
    commits.end()
    assert commits.next(RULE).commit == commit(30), "its evaluator was lost"
    assert commits.release((10, 20, 30), RULE) == (20,), "10 is the best, and 30 is being read"
    commits.evaluated(result(30, 0.2))
    answer = commits.next(RULE)
    assert answer.is_over
    assert answer.best is not None
    assert answer.best.path == "/c/10"


def test_what_is_removed_is_not_read_any_more() -> None:
    commits = Commits()
    commits.add(commit(10))
    assert commits.release((10,), None) == (10,)
    assert commits.next(None).commit is None


@pytest.mark.parametrize("is_evaluated", [True, False])
def test_an_attempt_begins_with_the_weights_that_it_goes_on_from_and_the_best_before(*, is_evaluated: bool) -> None:
    best = BestWeights(evaluation=result(10, 0.1), path="/c/10", files=("ckpt-10",))
    restore = Restore(
        path="/c/20",
        step=20,
        cursor=Cursor(epoch=2),
        rows_trained=9,
        files=("ckpt-20",),
        evaluated=is_evaluated,
        best=best,
    )
    commits = Commits(restore)
    follows = Committed(path="/c/20", step=20, epoch=1, files=("ckpt-20",))
    assert commits.next(RULE).commit == (None if is_evaluated else follows)
    commits.evaluated(result(20, 0.3))
    commits.end()
    assert commits.next(RULE).best == best


def test_the_best_weights_may_be_those_that_an_attempt_goes_on_from() -> None:
    best = BestWeights(evaluation=result(20, 0.1), path="/c/20", files=("ckpt-20",))
    commits = Commits(
        Restore(path="/c/20", step=20, cursor=Cursor(), rows_trained=9, files=("ckpt-20",), evaluated=True, best=best)
    )
    commits.end()
    answer = commits.next(RULE)
    assert (answer.commit, answer.is_over, answer.best) == (None, True, best)
