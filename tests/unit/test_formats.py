"""The tables of formats: each has the same ones, and a plan that an earlier version has stored leads to its format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lakes import deal, id_table, ids, lake_config, plan_lake, write_file

from sparktf.config.data_section import READ_DIRECTLY
from sparktf.driver.plan.planned_formats import PLANNED_FORMATS, planned_format, planned_format_of
from sparktf.driver.plan.stored_plan import load_plan, save_plan
from sparktf.driver.source.spark_formats import SPARK_FORMATS
from sparktf.errors import ConfigError
from sparktf.feature import FeedSpec
from sparktf.feed.formats.example_writer import record_bytes
from sparktf.feed.formats.format import FORMATS, PARQUET, TFRECORD, Format, format_of
from sparktf.storage.local import LocalStorage

STORED = {
    "features": [],
    "partition_columns": [],
    "partition_types": [],
    "fill_null": {},
    "renamed": {},
    "where": [],
    "untyped": {},
    "record_types": {},
    "shuffle": True,
    "seed": 0,
}
"""The spec of a stored plan."""

HASHES = {
    "parquet": ("4df25f2ef68466c4", {}),
    "tfrecord": ("e8199748d6ef6672", {}),
    "tfrecord, declared": ("4a03b4ec01d2fc7c", {"record_types": {"id": "bigint"}}),
    "csv": ("62253420f1c3c62d", {"options": {"header": True}}),
}
"""Hashes of plans by the version before there was a table of formats: runs of these go on."""


def write(folder: Path, form: Format) -> Path:
    """Writes 20 rows in a format."""
    if form is PARQUET:
        return write_file(folder / "a.parquet", id_table(0, 20)).parent
    folder.mkdir()
    (folder / "a").write_bytes(bytes(record_bytes(id_table(0, 20).to_batches()[0])))
    return folder


def test_every_table_has_the_same_formats() -> None:
    assert list(FORMATS) == list(READ_DIRECTLY) == list(PLANNED_FORMATS) == list(SPARK_FORMATS)
    assert all(planned_format(name).format is known for name, known in FORMATS.items())


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda form: form.name)
def test_rows_are_counted_before_a_run_where_files_have_footers(form: Format) -> None:
    if form.has_footers:
        assert lake_config(Path("/lake"), format=form.name, ready={"min_rows": 1}).data.names_files
    else:
        with pytest.raises(ConfigError, match=r"min_rows needs the footers of Parquet files, and format is tfrecord"):
            lake_config(Path("/lake"), format=form.name, ready={"min_rows": 1})


@pytest.mark.parametrize(("types", "form"), [({}, PARQUET), ({"id": "bigint"}, TFRECORD)], ids=["none", "some"])
def test_a_stored_plan_tells_its_format(types: dict[str, str], form: Format) -> None:
    spec = FeedSpec.model_validate({**STORED, "record_types": types})
    assert format_of(spec) is planned_format_of(spec).format is form


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda form: form.name)
def test_a_plan_is_stored_with_the_keys_that_earlier_versions_read_and_read_back_in_its_format(
    tmp_path: Path, form: Format
) -> None:
    plan = plan_lake(write(tmp_path / "lake", form), format=form.name, shuffle=False)
    save_plan(plan, LocalStorage(), str(tmp_path / "plan"))
    assert list(json.loads((tmp_path / "plan" / "spec.json").read_bytes())["spec"]) == list(STORED)
    again = load_plan(LocalStorage(), str(tmp_path / "plan"))
    assert format_of(again.spec) is form
    assert ids(again, deal(again)) == list(range(20))


@pytest.mark.parametrize("named", HASHES)
def test_the_hash_of_a_plan_depends_on_the_keys_of_its_own_format_alone(named: str) -> None:
    expected, section = HASHES[named]
    config = lake_config(Path("/lake"), format=named.partition(",")[0], **section)  # type: ignore[arg-type]
    assert config.plan_hash() == expected
    assert lake_config(Path("/lake"), record_sample=7).plan_hash() == HASHES["parquet"][0]
