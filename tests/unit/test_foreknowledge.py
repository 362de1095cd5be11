"""Which model an old day is scored with, and what is said of one that knows later rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparktf.config.job import JobConfig
from sparktf.errors import ConfigError
from sparktf.nightly.foreknowledge import date_of, knows_later
from sparktf.predict.exported_model import located_model
from sparktf.published.serving import ModelManifest
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.checkpoints import MANIFEST


def published(root: Path, days: dict[str, str], current: str) -> None:
    """Publishes versions of these days, as nights do."""
    for name, date in days.items():
        manifest = ModelManifest(
            files=(), name="churn", run_id=date, date=date, published=f"{date}T04:00:00", plan_hash="", steps=1
        )
        LocalStorage().write_bytes(f"{root}/churn/serving/{name}/{MANIFEST}", manifest.model_dump_json().encode())
    LocalStorage().write_bytes(f"{root}/churn/serving/CURRENT", current.encode())


def located(root: Path, model: str, day: str) -> tuple[str, str]:
    sections: dict[str, Any] = {"data": {"inputs": {"x": ["x"]}, "targets": {"y": "y"}}, "output": {"path": str(root)}}
    config = JobConfig.model_validate({"name": "churn", "model": "m:build", **sections})
    folder, version = located_model(config, model, day, FileSystems())
    return Path(folder).name, version


def test_as_of_takes_the_newest_version_of_an_earlier_day_that_was_not_rolled_back(tmp_path: Path) -> None:
    # Day 18 was trained again after day 19.
    days = {"1": "2026-11-18", "2": "2026-11-19", "3": "2026-11-18", "_withdrawn-4": "2026-11-20", "5": "2026-11-23"}
    published(tmp_path, days, current="5")
    assert located(tmp_path, "published", "2026-11-20") == ("5", "5")
    for day, version in (("2026-11-19", "3"), ("2026-11-20", "2"), ("2026-11-22", "2"), ("2026-11-24", "5")):
        assert located(tmp_path, "as-of", day) == (version, version)
    with pytest.raises(ConfigError, match=r"as-of: no version of churn .* before 2026-11-18: the oldest"):
        located(tmp_path, "as-of", "2026-11-18")
    with pytest.raises(ConfigError, match="none is published"):
        located(tmp_path / "elsewhere", "as-of", "2026-11-18")


def test_a_model_of_a_later_day_is_told_of(tmp_path: Path) -> None:
    said = knows_later("the rows of 2026-11-20 are scored with", "version 5", "2026-11-23", "2026-11-20")
    assert said == "the rows of 2026-11-20 are scored with version 5, which is of 2026-11-23: it knows later rows"
    assert not knows_later("", "version 5", "2026-11-20", "2026-11-20")
    assert not knows_later("", "version 5", "", "2026-11-20")


def test_the_day_of_a_model_stands_in_its_manifest_or_in_the_result_of_its_run(tmp_path: Path) -> None:
    published(tmp_path, {"1": "2026-11-18"}, current="1")
    assert date_of(LocalStorage(), f"{tmp_path}/churn/serving/1") == "2026-11-18"
    assert date_of(LocalStorage(), f"{tmp_path}/churn/r/model") == ""
