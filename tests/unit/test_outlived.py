"""Losses that cost no attempt are told with the updates at which they began and ended."""

from __future__ import annotations

import pytest

from sparktf.driver.attempt.endured import Endured, Lost, WentOn
from sparktf.results.outlived import Outlived, replay_end, told_since
from sparktf.topology import NodeId, Role

A, B, C = (Lost(NodeId(role=Role.WORKER, index=i), 0) for i in range(3))
GANG = Endured(3)


class TestWhatIsTold:
    def test_is_nothing_where_a_generation_came_without_a_loss(self) -> None:
        assert GANG.stood(3, 10, 1.0).went_on == ()

    def test_is_where_and_when_the_others_went_on(self) -> None:
        assert GANG.lose(B, 1.0).went_on == ()
        assert GANG.lose(B, 1.0).stood(2, 812, 1.3).went_on == (WentOn((B,), 812, 2, 0.3),)

    def test_is_when_all_were_there_again(self) -> None:
        whole = GANG.lose(B, 1.0).stood(2, 812, 1.3).stood(3, 835, 9.0)
        assert whole.went_on == (WentOn((B,), 812, 2, 0.3, whole_step=835),)
        assert whole.stood(3, 900, 12.0) == whole

    def test_counts_two_that_were_lost_before_anybody_went_on_as_one_loss_since_the_first(self) -> None:
        both = GANG.lose(C, 1.0).lose(B, 2.0).stood(1, 5, 4.0)
        assert both.went_on == (WentOn((B, C), 5, 1, 3.0),)

    def test_says_of_two_losses_behind_each_other_that_all_were_there_again_once_all_were(self) -> None:
        twice = GANG.lose(B, 1.0).stood(2, 5, 1.5).lose(C, 2.0).stood(2, 7, 2.5)
        assert [each.whole_step for each in twice.went_on] == [None, None]
        assert [each.whole_step for each in twice.stood(3, 9, 3.0).went_on] == [9, 9]

    def test_counts_a_successor_that_had_come_when_the_others_went_on(self) -> None:
        assert GANG.lose(B, 1.0).stood(3, 812, 1.3).went_on == (WentOn((B,), 812, 3, 0.3, whole_step=812),)


LOSS = Outlived(
    nodes=("worker 1",), causes=("worker 1 on host-3 lost its agent: executor lost",), step=812, workers=2, after_s=0.31
)
WHOLE = LOSS.model_copy(update={"whole_step": 835})


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        ((), (), []),
        ((), (LOSS,), ["worker 1 lost at update 812: went on with 2 after 0.31 s"]),
        ((LOSS,), (LOSS,), []),
        ((LOSS,), (WHOLE,), ["all workers again at update 835"]),
        ((LOSS, LOSS), (WHOLE, WHOLE), ["all workers again at update 835"]),
        ((), (WHOLE,), ["worker 1 lost at update 812: went on with 2 after 0.31 s; all workers again at update 835"]),
    ],
)
def test_lines_say_each_thing_once(before: tuple[Outlived, ...], now: tuple[Outlived, ...], lines: list[str]) -> None:
    assert told_since(before, now) == lines


def test_a_loss_in_words_has_its_cause() -> None:
    assert WHOLE.in_words() == (
        "lost at update 812: worker 1 on host-3 lost its agent: executor lost; went on with 2 after 0.31 s; "
        "all workers again at update 835"
    )
    other = LOSS.model_copy(update={"causes": ("no answer",)})
    assert other.in_words() == "lost at update 812: worker 1: no answer; went on with 2 after 0.31 s"


def test_a_replay_ends_at_the_first_loss_where_one_was_asked_for() -> None:
    assert "ends at update 812: what worker 1 had left" in replay_end((LOSS, WHOLE), rebalances=False)
    assert replay_end((LOSS,), rebalances=True) == replay_end((), rebalances=False) == ""
