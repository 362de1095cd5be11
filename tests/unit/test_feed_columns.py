"""Columns that are more than one value: fields of structs, in files and handed in as Arrow columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from lakes import array, batches, deal, plan_lake, write_file

from sparktf.errors import BadValueError, CorruptFileError
from sparktf.feature import Feature, Kind
from sparktf.feed.columns import Columns, Strings, allocate
from sparktf.feed.convert import RowGroup, assemble


def read(folder: Path, columns: dict[str, Any], inputs: dict[str, Any], **data: Any) -> dict[str, Any]:
    """Returns the tensors that inputs become, read from one file in row groups of four; text as lists of bytes."""
    rows = len(next(iter(columns.values())))
    file = write_file(folder / "c" / "f.parquet", pa.table({**columns, "label": [0.0] * rows}), group_rows=4)
    plan = plan_lake(file.parent, inputs=inputs, shuffle=False, **data)
    (batch,) = batches(plan, deal(plan)[0], rows=rows)
    return {name: plain(batch, f"input:{name}") for name in batch_names(batch)}


def batch_names(batch: Columns) -> list[str]:
    return [key.removeprefix("input:") for key in batch if key.startswith("input:")]


def plain(batch: Columns, key: str) -> Any:
    column = batch[key]
    return column.to_numpy().tolist() if isinstance(column, Strings) else column


def handed_in(columns: dict[str, pa.ChunkedArray], *features: Feature, **fields: Any) -> Columns:
    """Returns the tensors of rows that are no file's: they are rows 100 and on of partition 7."""
    rows = len(next(iter(columns.values())))
    group = RowGroup(origin="partition 7", first_row=lambda: 100, columns=columns, rows=rows, **fields)
    return assemble(features, [group], allocate(features, rows))


def number(*columns: str, name: str = "x", dtype: str = "int64", **fields: Any) -> Feature:
    return Feature(kind=Kind.INPUT, name=name, columns=columns, dtype=dtype, **fields)


def people(null: int = -1, null_within: int = -1) -> pa.Array:
    """Seven structs that hold structs; one may be null as a whole, one may have a null struct within."""
    rows: list[Any] = [
        {"age": i, "name": f"n{i % 3}", "of": {"score": i / 2, "tags": [i, i + 1], "a.b": i * 10}} for i in range(7)
    ]
    if null_within >= 0:
        rows[null_within]["of"] = None
    return pa.array([None if i == null else row for i, row in enumerate(rows)])


class TestStructs:
    def test_fields_are_columns_at_any_depth(self, tmp_path: Path) -> None:
        found = read(
            tmp_path,
            {"who": people(), "z": np.arange(7)},
            {
                "age": "who.age",
                "name": "who.name",
                "tags": {"columns": "who.of.tags", "shape": [2]},
                "dotted": "who.of.a.b",
                "packed": ["who.age", "z", "who.of.score"],
            },
        )
        assert found["age"].tolist() == list(range(7))
        assert found["name"] == [f"n{i % 3}".encode() for i in range(7)]
        assert found["tags"].tolist() == [[i, i + 1] for i in range(7)]
        assert found["dotted"].tolist() == [i * 10 for i in range(7)]
        assert found["packed"].tolist() == [[i, i, i / 2] for i in range(7)]

    def test_a_null_struct_makes_its_fields_null(self, tmp_path: Path) -> None:
        fill = {"who.age": -1, "who.name": "nobody", "who.of.score": -2}
        inputs = {"age": "who.age", "name": "who.name", "score": "who.of.score"}
        found = read(tmp_path, {"who": people(null=5, null_within=2)}, inputs, fill_null=fill)
        assert found["age"].tolist() == [0, 1, 2, 3, 4, -1, 6]
        assert found["name"][4:6] == [b"n1", b"nobody"]
        assert found["score"].tolist() == [0, 0.5, -2, 1.5, 2, -2, 3]
        with pytest.raises(
            BadValueError, match=r"f\.parquet: column 'who\.of\.score', row 2: null; data\.fill_null\.w"
        ):
            read(tmp_path, {"who": people(null=5, null_within=2)}, {"score": "who.of.score"})

    def test_a_column_whose_own_name_has_a_dot_goes_before_a_field(self, tmp_path: Path) -> None:
        columns = {"a.b": [1, 2], "a": pa.array([{"b": 3, "c": 5}, {"b": 4, "c": 6}]), "x.y.z": ["p", "q"]}
        found = read(tmp_path, columns, {"exact": "a.b", "field": "a.c", "text": "x.y.z", "both": ["a.?"]})
        assert found["exact"].tolist() == [1, 2]
        assert found["field"].tolist() == [5, 6]
        assert found["text"] == [b"p", b"q"]
        assert found["both"].tolist() == [[1, 5], [2, 6]]

    def test_a_list_whose_own_name_has_a_dot(self, tmp_path: Path) -> None:
        columns = {"a.l": pa.array([[1, 2], [3, 4]]), "a": [7, 8]}
        found = read(tmp_path, columns, {"l": {"columns": "a.l", "shape": [2]}, "a": "a"})
        assert found["l"].tolist() == [[1, 2], [3, 4]]
        assert found["a"].tolist() == [7, 8]

    def test_fields_are_targets_and_weights_like_any_column(self, tmp_path: Path) -> None:
        table = pa.table({"who": people(), "y": pa.array([{"is": 0.5, "weight": 2.0}] * 7)})
        write_file(tmp_path / "f.parquet", table)
        plan = plan_lake(tmp_path, inputs={"x": "who.age"}, targets={"y": "y.is"}, sample_weight="y.weight")
        (batch,) = batches(plan, deal(plan)[0])
        assert array(batch, "target:y").tolist() == [0.5] * 7
        assert array(batch, "weight:").tolist() == [2.0] * 7

    def test_a_struct_handed_in_as_an_arrow_column_of_several_chunks(self) -> None:
        who = pa.chunked_array([people(null=5).slice(0, 3), people(null=5).slice(3)])
        found = handed_in({"who": who}, number("who.of.a.b"), fill_null={"who.of.a.b": -1})
        assert array(found, "input:x").tolist() == [0, 10, 20, 30, 40, -1, 60]
        with pytest.raises(BadValueError, match=r"^partition 7: column 'who\.age', row 105: null"):
            handed_in({"who": who}, number("who.age"))

    def test_a_file_that_has_lost_the_field_since_it_was_planned(self, tmp_path: Path) -> None:
        file = write_file(tmp_path / "f.parquet", pa.table({"c": pa.array([{"k": "x"}]), "label": [0.0]}))
        plan = plan_lake(tmp_path, inputs={"x": "c.k"})
        write_file(file, pa.table({"c": pa.array([{"l": "x"}]), "label": [0.0]}))
        with pytest.raises(CorruptFileError, match=r"f\.parquet has changed since it was planned"):
            batches(plan, deal(plan)[0])
