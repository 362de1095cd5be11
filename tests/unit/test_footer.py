"""Footers: types are Parquet's alone; what Arrow does not read is left to Spark, and what lies is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lakes import array, batches, deal, plan_lake, write_file
from parquet_footers import elem, footer_only, key_column, name_algorithm, tell_rows, unsign, write_encrypted

from sparktf.driver.plan.features import column_type
from sparktf.driver.plan.files import list_source, read_schema
from sparktf.driver.plan.not_plain import NotPlainError
from sparktf.driver.plan.spark_reads import SparkReads
from sparktf.errors import CorruptFileError
from sparktf.feature import FeedLimits
from sparktf.feed.arrays.aside import BadRow
from sparktf.feed.arrays.columns import Strings
from sparktf.feed.blocks import PlannedParts
from sparktf.feed.pipeline import NodeFeed
from sparktf.sequence import Stream
from sparktf.storage.file_systems import open_storage


def types_of(path: Path) -> dict[str, pa.DataType]:
    source = list_source(open_storage(str(path)), str(path), "data.path", SparkReads())
    return read_schema(open_storage(str(path)), source, SparkReads())


class TestLeftToSpark:
    @pytest.mark.parametrize(
        ("plaintext_footer", "reason"), [(True, "it has encrypted columns"), (False, "it is encrypted")]
    )
    def test_encrypted_columns_used_or_not(self, tmp_path: Path, plaintext_footer: bool, reason: str) -> None:
        write_encrypted(tmp_path / "f.parquet", plaintext_footer=plaintext_footer)
        for column in ("x", "secret"):
            with pytest.raises(NotPlainError, match=rf"f\.parquet cannot be read by trainers: {reason}$"):
                plan_lake(tmp_path, inputs={"x": column})

    def test_encrypted_columns_under_a_footer_without_its_signature(self, tmp_path: Path) -> None:
        write_encrypted(tmp_path / "f.parquet", plaintext_footer=True)
        unsign(tmp_path / "f.parquet")
        refused(tmp_path)

    @pytest.mark.parametrize("is_long", [False, True])
    def test_a_footer_that_names_how_it_is_encrypted(self, tmp_path: Path, is_long: bool) -> None:
        write_file(tmp_path / "f.parquet", pa.table({"x": [1.0], "label": [0.0]}))
        name_algorithm(tmp_path / "f.parquet", is_long=is_long)
        refused(tmp_path)

    @pytest.mark.parametrize("with_footer_key", [False, True])
    @pytest.mark.parametrize("names", [["label"], ["a" * 200, "b"], [], ["a"] * 20, [""] * 300])
    def test_a_column_with_a_key_alone(self, tmp_path: Path, names: list[str], with_footer_key: bool) -> None:
        for folder, key in (("with", b"material"), ("without", b"")):
            file = write_file(tmp_path / folder / "f.parquet", pa.table({"x": [1.0], "label": [0.0]}))
            key_column(file, names, with_footer_key=with_footer_key, key=key)
            refused(tmp_path / folder)

    def test_texts_like_keys_are_none(self, tmp_path: Path) -> None:
        likes = [
            b"\x5c\x2c\x19",
            b"\x5c\x1c\0\x1c\x19",
            b"\x5c\x2c\x19\xf8\xff\xff\xff\x7f",
            b"\x5c\x2c\x19\x18\x05label\0",
        ]
        table = pa.table({"x": pa.array([like * 8 for like in likes], pa.binary()), "label": [0.0] * len(likes)})
        write_file(tmp_path / "f.parquet", table, group_rows=1)
        assert plan_lake(tmp_path, inputs={"x": "x"}).rows(Stream.TRAIN) == len(likes)

    def test_an_encrypted_file_among_others(self, tmp_path: Path) -> None:
        write_file(tmp_path / "e.parquet", pa.table({"x": [1.0], "label": [0.0]}))
        write_encrypted(tmp_path / "f.parquet", plaintext_footer=True)
        with pytest.raises(NotPlainError, match=r"f\.parquet .*encrypted columns"):
            plan_lake(tmp_path, inputs={"x": "x"})

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            (
                [elem("m", rep=1, children=1, converted=1), elem("key_value", rep=2, children=2),
                 elem("key", kind=6, rep=1, converted=0), elem("value", kind=1, rep=1)],
                "Map keys must be annotated as required",
            ),
            ([elem("g", rep=1, children=1, logical=11), elem("v", kind=1, rep=1)], "cannot be applied to group node"),
            ([elem(b"caf\xe9", kind=5, rep=1)], r"the name of a column is not UTF-8 \(b'caf\\xe9'\)"),
        ],
    )  # fmt: skip
    def test_schemas_that_arrow_refuses(self, tmp_path: Path, fields: list[bytes], reason: str) -> None:
        (tmp_path / "f.parquet").write_bytes(footer_only([elem("x", kind=1, rep=1), *fields], top=2))
        with pytest.raises(NotPlainError, match=rf"f\.parquet cannot be read by trainers: .*{reason}"):
            plan_lake(tmp_path, inputs={"x": "x"}, targets={"y": "x"})

    def test_decimals_in_more_bytes_than_they_need(self, tmp_path: Path) -> None:
        wide = elem("d", kind=7, length=17, rep=1, converted=5, scale=2, precision=38)
        (tmp_path / "f.parquet").write_bytes(footer_only([elem("x", kind=1, rep=1), wide], top=2))
        inputs: dict[str, Any] = {"d": {"columns": "d", "dtype": "float64"}}
        with pytest.raises(NotPlainError, match=r"f\.parquet cannot be read by trainers: .*'d'.*17 bytes"):
            plan_lake(tmp_path, inputs=inputs, targets={"y": "x"})

    def test_names_of_a_fixed_set_are_text(self, tmp_path: Path) -> None:
        fields = [elem("e", kind=6, rep=1, converted=4), elem("j", kind=6, rep=1, converted=19)]
        (tmp_path / "f.parquet").write_bytes(footer_only(fields, top=2))
        assert types_of(tmp_path) == {"e": pa.string(), "j": pa.string()}


class TestArrowsOwnTypes:
    def test_are_what_spark_reads(self, tmp_path: Path) -> None:
        image = pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.float32(), [2, 2]),
            pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8, dtype=np.float32)), 4),
        )
        table = pa.table(
            {
                "text": pa.array(["a", "bb"], pa.string_view()),
                "raw": pa.array([b"a", b"bb"], pa.binary_view()),
                "image": image,
                "wait": pa.array([1, 2], pa.duration("ns")),
                "three": pa.array([[1, 2, 3], [4, 5, 6]], pa.list_(pa.int32(), 3)),
                "label": [0.0, 1.0],
            }
        )
        write_file(tmp_path / "f.parquet", table)
        sparks = {name: column_type(kind).spark for name, kind in types_of(tmp_path).items()}
        assert sparks == {
            "text": "string", "raw": "binary", "image": "array<float>", "wait": "bigint", "three": "array<int>",
            "label": "double",
        }  # fmt: skip
        plan = plan_lake(tmp_path, inputs={name: name for name in sparks if name != "label"}, shuffle=False)
        (batch,) = batches(plan, deal(plan)[0])
        assert [bytes(text) for text in texts(batch["input:text"])] == [b"a", b"bb"]
        assert [bytes(text) for text in texts(batch["input:raw"])] == [b"a", b"bb"]
        assert array(batch, "input:image").tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert array(batch, "input:three").tolist() == [[1, 2, 3], [4, 5, 6]]
        assert array(batch, "input:wait").tolist() == [1, 2]

    def test_what_is_no_schema_is_none(self, tmp_path: Path) -> None:
        table = pa.table({"x": [1.0], "label": [0.0]}).replace_schema_metadata({"ARROW:schema": "no schema"})
        pq.write_table(table, tmp_path / "f.parquet", store_schema=False)
        assert types_of(tmp_path) == {"x": pa.float64(), "label": pa.float64()}


def refused(lake: Path) -> None:
    with pytest.raises(NotPlainError, match=r"f\.parquet cannot be read by trainers: it has encrypted columns$"):
        plan_lake(lake, inputs={"x": "x"})


def texts(column: Any) -> list[bytes]:
    assert isinstance(column, Strings)
    return list(column.to_numpy())


def with_rows(path: Path, told: int) -> Path:
    """Writes five rows, of which the footer says that they are others."""
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0, 5.0], "label": [0.0, 1.0, 0.0, 1.0, 0.0]})
    pq.write_table(table, path, use_dictionary=False, write_statistics=False)
    tell_rows(path, 5, told)
    return path


def test_a_path_of_a_chunk_that_is_no_name_is_a_damaged_file(tmp_path: Path) -> None:
    file = write_file(tmp_path / "f.parquet", pa.table({"x": [1.0], "caf": [1.0], "label": [0.0]}))
    content = file.read_bytes()
    at = content.rindex(b"\x03caf")  # in the row group: the schema comes before
    file.write_bytes(content[:at] + b"\x03ca\xe9" + content[at + 4 :])
    with pytest.raises((CorruptFileError, NotPlainError), match=r"f\.parquet .*(not UTF-8|readable)"):
        plan_lake(tmp_path, inputs={"x": "x"})


class TestRows:
    @pytest.mark.parametrize("told", [6, 8])
    def test_other_rows_than_the_footer_says(self, tmp_path: Path, told: int) -> None:
        with_rows(tmp_path / "f.parquet", told)
        plan = plan_lake(tmp_path, inputs={"x": "x"})
        with pytest.raises(CorruptFileError, match=rf"f\.parquet .*row group 0.* {told} rows.* 5 "):
            batches(plan, deal(plan)[0])

    def test_are_set_aside_where_bad_rows_are(self, tmp_path: Path) -> None:
        with_rows(tmp_path / "f.parquet", 8)
        write_file(tmp_path / "g.parquet", pa.table({"x": [6.0, 7.0], "label": [0.0, 1.0]}))
        plan = plan_lake(tmp_path, inputs={"x": "x"}, shuffle=False)
        found: list[BadRow] = []
        (share,) = deal(plan)
        parts = PlannedParts(plan.spec, share, open_storage, sets_aside=True)
        limits = FeedLimits(max_bad_rows=8)
        with NodeFeed(plan.spec, parts, limits=limits, on_bad_rows=lambda rows, too_many: found.extend(rows)) as feed:
            assert array(feed.next_rows(10), "input:x").tolist() == [6.0, 7.0]
        assert feed.rows_aside == 8

    @pytest.mark.parametrize("told", [-3, 1 << 50])
    def test_that_nobody_has_are_a_damaged_file(self, tmp_path: Path, told: int) -> None:
        with_rows(tmp_path / "f.parquet", told)
        with pytest.raises(CorruptFileError, match=r"f\.parquet is not a readable Parquet file: .*rows"):
            plan_lake(tmp_path, inputs={"x": "x"})
