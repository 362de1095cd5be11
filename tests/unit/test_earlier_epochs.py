"""What a resumed run knows of the epochs before, out of a checkpoint alone."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from lakes import plan_lake, write_lake
from pretend import CHIEF, SetClock, pretend_config

from sparktf.driver.attempt.saves import Save
from sparktf.driver.checkpoint_record import CheckpointRecord
from sparktf.driver.commit import Commit, Committer
from sparktf.results.keep import EpochLoss, Evaluation
from sparktf.rundir import RunDirectory, checkpoint_name
from sparktf.sequence import Cursor
from sparktf.storage.local import LocalStorage
from sparktf.trainer.node.position import Position
from sparktf.wire.restore import Restore
from sparktf.wire.uploads import Uploaded


def evaluation(epoch: int, loss: float) -> Evaluation:
    return Evaluation(epoch=epoch, step=5 * (epoch + 1), rows=20, values={"loss": loss})


def resumed(folder: Path, uploaded: Uploaded, validation: list[Evaluation], training: list[Evaluation]) -> Restore:
    """Returns what the next driver begins with, when another one has committed a checkpoint and is gone."""
    lake = write_lake(folder / "lake", [20])
    rundir = RunDirectory(str(folder / "runs"), "t", "r")
    config, plan = pretend_config(lake, folder / "runs"), plan_lake(lake)

    def committer() -> Committer:
        opened = Committer(config, LocalStorage(), rundir, plan, lambda text: None, clock=SetClock())
        opened.fence(lambda after: after + 1)
        return opened

    Path(rundir.staged(1, checkpoint_name(uploaded.step))).mkdir(parents=True)
    save = Save(uploaded, Cursor(epoch=uploaded.epoch, done=uploaded.done))
    commit = Commit(save, CheckpointRecord(validation=tuple(validation), training=tuple(training)), {})
    committer().commit(commit)
    found = committer().begin()
    assert found is not None
    return found


def test_the_metrics_of_all_epochs_and_the_loss_of_the_one_that_is_begun_are_known(tmp_path: Path) -> None:
    loss = EpochLoss().add(0.5, 8)
    uploaded = Uploaded(attempt=1, node=CHIEF, step=12, epoch=2, done=((0, 8),), keras="keras", loss=loss)
    validation, training = [evaluation(0, 0.9), evaluation(1, 0.8)], [evaluation(0, 0.7), evaluation(1, 0.6)]
    found = resumed(tmp_path, uploaded, validation, training)
    assert (found.validation, found.training) == (tuple(validation), tuple(training))
    going_on = Position.restored(found).begun(2).learned(2.0, 12)
    assert going_on.epoch_loss.rows == 20
    assert going_on.epoch_loss.mean == pytest.approx((0.5 * 8 + 2.0 * 12) / 20)
    assert going_on.ended(complete=True).begun(3).epoch_loss == EpochLoss()


def test_a_loss_that_is_no_number_is_known_as_that(tmp_path: Path) -> None:
    loss = EpochLoss().add(math.nan, 8)
    uploaded = Uploaded(attempt=1, node=CHIEF, step=7, epoch=1, done=((0, 8),), keras="keras", loss=loss)
    found = resumed(tmp_path, uploaded, [evaluation(0, math.nan)], [evaluation(0, math.inf)])
    assert math.isnan(found.loss.mean)
    assert math.isnan(found.validation[0].values["loss"])
    assert math.isinf(found.training[0].values["loss"])
    again = Restore.model_validate_json(found.model_dump_json())
    assert math.isnan(again.loss.mean)
