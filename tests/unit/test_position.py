"""Where a loop is, and what it goes on with."""

from __future__ import annotations

import dataclasses

import pytest

from sparktf.sequence import Cursor
from sparktf.trainer.node.position import Extent, Position
from sparktf.wire.restore import Restore

TWO_EPOCHS = Extent(epochs=2, max_steps=None)
SEVEN_STEPS = Extent(epochs=2, max_steps=7)


def restored(epoch: int, step: int) -> Position:
    cursor = Cursor(epoch=epoch, done=())
    return Position.restored(Restore(path="/c", step=step, cursor=cursor, rows_trained=0, files=()))


def test_a_run_begins_with_its_first_epoch_at_step_0() -> None:
    assert Position.restored(None) == Position(epoch=0, step=0, rows=0)
    assert TWO_EPOCHS.epoch_after(Position.restored(None)) == 0


def test_an_attempt_goes_on_inside_the_epoch_of_its_checkpoint_and_counts_its_own_rows() -> None:
    position = restored(epoch=1, step=5)
    assert TWO_EPOCHS.epoch_after(position) == 1
    assert position.begun(1).advanced(step=6, rows=32, loss=0.5) == Position(epoch=1, step=6, rows=32, loss=0.5)


def test_rows_are_those_of_the_epoch_and_steps_those_of_the_run() -> None:
    first = Position().begun(0).advanced(step=3, rows=96, loss=0.5).ended(complete=True)
    assert (first.epoch, first.next_epoch, TWO_EPOCHS.epoch_after(first)) == (0, 1, 1)
    second = first.begun(1)
    assert second == Position(epoch=1, step=3, rows=0, loss=0.5)
    assert TWO_EPOCHS.epoch_after(second.ended(complete=True)) is None


def test_a_checkpoint_inside_an_epoch_goes_on_with_it() -> None:
    assert Position(epoch=1, step=4, rows=64).next_epoch == 1


def test_max_steps_ends_the_run_wherever_it_is_met() -> None:
    inside = Position(epoch=0, step=7, rows=12)
    assert SEVEN_STEPS.epoch_after(inside) is None
    assert SEVEN_STEPS.epoch_after(inside.ended(complete=True)) is None
    assert SEVEN_STEPS.epoch_after(restored(epoch=0, step=7)) is None
    assert [SEVEN_STEPS.steps_left(5), TWO_EPOCHS.steps_left(5)] == [2, None]


def test_nothing_is_left_of_a_run_whose_last_epoch_is_committed() -> None:
    assert TWO_EPOCHS.epoch_after(restored(epoch=2, step=9)) is None


def test_a_position_that_others_are_given_stays_as_it_is() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Position().step = 1  # type: ignore[misc]
