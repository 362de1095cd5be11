"""What a checkpoint tells of the run before it: stored under names that runs of other versions read."""

from __future__ import annotations

import json

from sparktf.driver.checkpoint_record import CheckpointRecord
from sparktf.results.keep import Evaluation, KeepRule
from sparktf.results.result import EpochRows

EPOCH = EpochRows(epoch=0, planned=9, fed=9, trained=8, set_aside=1, complete=True)
SEEN = Evaluation(epoch=0, step=4, rows=3, values={"loss": 0.5})


def test_it_is_stored_under_the_names_that_other_versions_read_without_what_there_is_not() -> None:
    assert CheckpointRecord().stored() == {"epochs": (), "set_aside": 0, "replayed": 0}
    rule = KeepRule(metric="loss", mode="min")
    full = CheckpointRecord(epochs=(EPOCH,), splits={7: 100}, validation=(SEEN,), training=(SEEN,), keep=rule)
    stored = json.loads(json.dumps(full.stored()))
    assert list(stored) == ["epochs", "splits", "set_aside", "replayed", "validation", "training", "keep"]
    assert CheckpointRecord.model_validate(stored) == full


def test_what_a_later_version_stores_besides_is_left_alone() -> None:
    assert CheckpointRecord.model_validate({"epochs": [], "weather": "fine"}) == CheckpointRecord()


def test_no_rows_that_spark_has_fed_yet_are_another_thing_than_a_run_that_spark_does_not_feed() -> None:
    assert CheckpointRecord(splits={}).stored()["splits"] == {}
    assert "splits" not in CheckpointRecord().stored()
