"""Columns that are not one value for each row: fields of structs, lists of any length, nulls behind a mask."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from lakes import array, batches, deal, plan_lake, write_file

from sparktf.errors import BadValueError, CorruptFileError
from sparktf.feature import Feature, Kind
from sparktf.feed.arrays.columns import Columns, Strings, empty_columns
from sparktf.feed.arrays.convert import assemble
from sparktf.feed.arrays.nested import path_of
from sparktf.feed.arrays.row_group import RowGroup


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
    group = RowGroup(origin="partition 7", number=lambda row: 100 + row, columns=columns, rows=rows, **fields)
    tensors = {f.key: np.empty((rows, *f.shape), f.numpy_dtype) for f in features if not f.is_text}
    return assemble(features, [group], tensors)


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
            BadValueError, match=r"f\.parquet: column 'who\.of\.score', row 2: null; set data\.fill_null\.w"
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

    @pytest.mark.parametrize(
        ("name", "path"),
        [
            ("who", ("who",)),
            ("who.age", ("who", "age")),
            ("who.of.a.b", ("who", "of", "a.b")),
            ("x.y", ("x.y",)),
            ("x.y.z", ("x.y", "z")),
            ("who.x", None),
            ("who.age.x", None),
            ("x", None),
        ],
    )
    def test_the_way_to_a_field(self, name: str, path: tuple[str, ...] | None) -> None:
        assert path_of({"who": people().type, "x.y": pa.struct({"z": pa.int8()})}, name) == path

    def test_a_file_that_has_lost_the_field_since_it_was_planned(self, tmp_path: Path) -> None:
        file = write_file(tmp_path / "f.parquet", pa.table({"c": pa.array([{"k": "x"}]), "label": [0.0]}))
        plan = plan_lake(tmp_path, inputs={"x": "c.k"})
        write_file(file, pa.table({"c": pa.array([{"l": "x"}]), "label": [0.0]}))
        with pytest.raises(CorruptFileError, match=r"f\.parquet has changed since it was planned"):
            batches(plan, deal(plan)[0])


UNEVEN = [[1, 2, 3], [4], [], [5, 6], [7, 8, 9]]
PADDED = [[1, 2, 3], [4, -1, -1], [-1, -1, -1], [5, 6, -1], [7, 8, 9]]


def lists_of(values: Any, kind: Any = None) -> dict[str, Any]:
    """Returns one column c of lists."""
    return {"c": pa.array(values, pa.list_(kind or pa.int32()))}


def padded(pad: Any = -1, places: int = 3, **settings: Any) -> dict[str, Any]:
    return {"columns": "c", "shape": [places], "pad": pad, **settings}


class TestLists:
    @pytest.mark.parametrize(
        "kind", [pa.list_(pa.int32()), pa.large_list(pa.int64()), pa.list_(pa.uint8()), pa.list_(pa.float32())]
    )
    def test_shorter_lists_are_filled_up(self, tmp_path: Path, kind: pa.DataType) -> None:
        tensor = read(tmp_path, {"c": pa.array(UNEVEN, kind)}, {"x": padded()})["x"]
        assert tensor.tolist() == PADDED

    @pytest.mark.parametrize("values", [[[], []], [[], [1]], [[1, 2, 3]] * 2, [[1]] * 9, [[1, 2, 3], []]])
    def test_whatever_the_lengths(self, tmp_path: Path, values: list[list[int]]) -> None:
        tensor = read(tmp_path, lists_of(values), {"x": padded(0)})["x"]
        assert tensor.tolist() == [row + [0] * (3 - len(row)) for row in values]

    def test_many_lists_of_random_lengths(self) -> None:
        draw = np.random.default_rng(3)
        rows = [draw.integers(0, 99, size).tolist() for size in draw.integers(0, 12, 2000)]
        column = pa.chunked_array([pa.array(rows[:700]), pa.array(rows[650:]).slice(50)])
        feature = number("c", shape=(8,), pad=-1, truncate=True)
        found = array(handed_in({"c": column}, feature), "input:x")
        assert found.tolist() == [row[:8] + [-1] * (8 - len(row)) for row in rows]

    def test_the_dtype_is_that_of_the_tensor_not_of_the_padding(self, tmp_path: Path) -> None:
        tensor = read(tmp_path, lists_of(UNEVEN), {"x": padded(0.5, dtype="float32")})["x"]
        assert tensor.dtype == np.float32
        assert tensor[1].tolist() == [4, 0.5, 0.5]
        assert np.isnan(read(tmp_path, lists_of(UNEVEN), {"x": padded(float("nan"), dtype="float32")})["x"][2]).all()

    def test_longer_lists_are_refused_or_cut(self, tmp_path: Path) -> None:
        columns = lists_of([*UNEVEN, [1, 2, 3, 4, 5]])
        with pytest.raises(
            BadValueError, match=r"'c', row 5: a list of 5 values, more than 3; set `truncate: true` to cut"
        ):
            read(tmp_path, columns, {"x": padded()})
        cut = read(tmp_path, columns, {"x": padded(truncate=True)})["x"]
        assert cut.tolist() == [*PADDED, [1, 2, 3]]

    def test_cutting_alone_leaves_short_lists_refused(self, tmp_path: Path) -> None:
        settings = {"columns": "c", "shape": [2], "truncate": True}
        assert read(tmp_path, lists_of([[1, 2, 3], [4, 5]]), {"x": settings})["x"].tolist() == [[1, 2], [4, 5]]
        with pytest.raises(
            BadValueError, match=r"'c', row 5: a list of 1 values, fewer than 2; set `pad` to fill it up"
        ):
            read(tmp_path, lists_of([[1, 2]] * 5 + [[3]]), {"x": settings})

    @pytest.mark.parametrize("pad", [2**64 - 1, 2**63, 0])
    def test_the_padding_may_be_any_value_of_the_dtype(self, tmp_path: Path, pad: int) -> None:
        feature = {"columns": "c", "dtype": "uint64", "shape": [2], "pad": pad}
        assert read(tmp_path, lists_of([[7], []]), {"x": feature})["x"].tolist() == [[7, pad], [pad, pad]]

    def test_lists_of_fixed_size_are_padded_and_cut_too(self, tmp_path: Path) -> None:
        columns = {"c": pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2))}
        inputs = {"long": padded(0), "short": {"columns": "c", "shape": [1], "truncate": True}}
        found = read(tmp_path, columns, inputs)
        assert found["long"].tolist() == [[1, 2, 0], [3, 4, 0]]
        assert found["short"].tolist() == [[1], [3]]

    def test_one_column_with_two_lengths(self, tmp_path: Path) -> None:
        found = read(tmp_path, lists_of(UNEVEN), {"x": padded(), "y": padded(0, 4)})
        assert (found["x"].shape, found["y"].shape) == ((5, 3), (5, 4))
        assert found["y"].tolist() == [row + [0] * (4 - len(row)) for row in UNEVEN]

    def test_a_value_that_does_not_fit_names_its_row(self, tmp_path: Path) -> None:
        with pytest.raises(BadValueError, match=r"column 'c', row 5: 300 does not fit dtype int8 of input:x"):
            read(tmp_path, lists_of([*UNEVEN, [1, 300]]), {"x": padded(dtype="int8")})

    def test_a_fraction_that_is_held_out_keeps_lists_with_their_rows(self, tmp_path: Path) -> None:
        rows = [list(range(i % 4)) for i in range(50)]
        write_file(tmp_path / "f.parquet", pa.table({"c": rows, "label": np.arange(50)}), group_rows=20)
        plan = plan_lake(tmp_path, inputs={"x": padded(-1)}, validation={"fraction": 0.3}, shuffle_rows=30)
        for batch in batches(plan, deal(plan)[0], rows=11):
            expected = [rows[i] + [-1] * (3 - len(rows[i])) for i in array(batch, "target:y")]
            assert array(batch, "input:x").tolist() == expected

    def test_a_padded_target(self, tmp_path: Path) -> None:
        write_file(tmp_path / "f.parquet", pa.table({**lists_of(UNEVEN), "z": [0] * 5}))
        plan = plan_lake(tmp_path, inputs={"z": "z"}, targets={"y": padded(dtype="float32")}, shuffle=False)
        (batch,) = batches(plan, deal(plan)[0])
        assert array(batch, "target:y").tolist() == PADDED

    def test_nulls_within_lists_and_null_lists_are_filled(self, tmp_path: Path) -> None:
        columns = lists_of([[1, None], None, [2, 3]])
        fixed = {"columns": "c", "shape": [2]}
        assert read(tmp_path, columns, {"x": fixed}, fill_null={"c": 9})["x"].tolist() == [[1, 9], [9, 9], [2, 3]]
        tensor = read(tmp_path, columns, {"x": padded()}, fill_null={"c": 9})["x"]
        assert tensor.tolist() == [[1, 9, -1], [-1, -1, -1], [2, 3, -1]]
        sized = {"c": pa.array([[1, None], None, [2, 3]], pa.list_(pa.int16(), 2))}
        assert read(tmp_path, sized, {"x": "c"}, fill_null={"c": 9})["x"].tolist() == [[1, 9], [9, 9], [2, 3]]

    def test_a_fill_value_that_does_not_fit_names_a_row(self, tmp_path: Path) -> None:
        settings = {"columns": "c", "shape": [1], "dtype": "int8"}
        with pytest.raises(BadValueError, match=r"column 'c', row 1: 300 does not fit dtype int8"):
            read(tmp_path, lists_of([[1], None]), {"x": settings}, fill_null={"c": 300})

    def test_nulls_are_refused_in_padded_lists_too(self, tmp_path: Path) -> None:
        with pytest.raises(BadValueError, match=r"'c', row 5: null; set data\.fill_null\.c"):
            read(tmp_path, lists_of([*UNEVEN, None]), {"x": padded()})
        with pytest.raises(BadValueError, match=r"'c', row 5: a null within the list"):
            read(tmp_path, lists_of([*UNEVEN, [1, None]]), {"x": padded()})

    def test_a_null_that_is_cut_off_is_not_refused(self, tmp_path: Path) -> None:
        tensor = read(tmp_path, lists_of([[1, 2, 3, None], [4]]), {"x": padded(truncate=True)})["x"]
        assert tensor.tolist() == [[1, 2, 3], [4, -1, -1]]


class TestListsOfText:
    WORDS: tuple[list[str], ...] = (["a", "b"], [], ["b"], ["c", "a", ""])

    @pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
    def test_are_padded_with_a_text(self, tmp_path: Path, kind: pa.DataType) -> None:
        column = pa.array(self.WORDS, pa.list_(pa.string())).cast(pa.list_(kind))
        found = read(tmp_path, {"c": column}, {"x": padded("?"), "empty": padded(""), "known": padded("a")})
        for name, pad in (("x", b"?"), ("empty", b""), ("known", b"a")):
            assert found[name] == [[w.encode() for w in row] + [pad] * (3 - len(row)) for row in self.WORDS]

    def test_keep_their_shape_over_blocks_and_batches(self, tmp_path: Path) -> None:
        words = [[f"w{i}", "same", f"v{i % 5}", "x"][: i % 4 + 1] for i in range(90)]
        table = pa.table({"c": words, "label": np.arange(90)})
        write_file(tmp_path / "f.parquet", table, group_rows=20)
        plan = plan_lake(tmp_path, inputs={"x": {**padded("?", 4), "shape": [2, 2]}}, shuffle_rows=30)
        found = batches(plan, deal(plan)[0], rows=7)
        assert sum(len(batch["target:y"]) for batch in found) == 90
        for batch in found:
            text = batch["input:x"]
            assert isinstance(text, Strings)
            assert text.codes.shape[1:] == (2, 2)
            assert len(set(text.values)) == len(text.values)
            expected = [words[i] + ["?"] * (4 - len(words[i])) for i in array(batch, "target:y")]
            assert np.char.decode(text.to_numpy().astype(bytes)).reshape(-1, 4).tolist() == expected

    def test_an_empty_batch_has_the_shape(self) -> None:
        feature = Feature(kind=Kind.INPUT, name="x", columns=("c",), dtype="string", shape=(3,))
        text = empty_columns([feature])["input:x"]
        assert isinstance(text, Strings)
        assert text.to_numpy().shape == (0, 3)

    def test_dictionary_encoded_values_handed_in(self) -> None:
        codes = pa.array([0, 1, 1, 0, 0]), pa.array(["p", "q"])
        column = pa.ListArray.from_arrays([0, 2, 2, 5], pa.DictionaryArray.from_arrays(*codes))
        feature = Feature(kind=Kind.INPUT, name="x", columns=("c",), dtype="string", shape=(3,), pad="q")
        found = plain(handed_in({"c": pa.chunked_array([column])}, feature), "input:x")
        assert found == [[b"p", b"q", b"q"], [b"q"] * 3, [b"q", b"p", b"p"]]


class TestBytes:
    RAW: ClassVar[dict[str, Any]] = {"columns": "c", "dtype": "uint8"}

    @pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(4)])
    def test_pixels_that_lie_in_a_binary_column(self, tmp_path: Path, kind: pa.DataType) -> None:
        images = [bytes(range(i, i + 4)) for i in range(9)]
        inputs = {"x": {**self.RAW, "shape": [2, 2]}, "text": "c"}
        found = read(tmp_path, {"c": pa.array(images, kind)}, inputs)
        assert found["x"].dtype == np.uint8
        assert found["x"].tolist() == [[[i, i + 1], [i + 2, i + 3]] for i in range(9)]
        assert found["text"] == images

    def test_are_padded_cut_and_masked_like_lists(self, tmp_path: Path) -> None:
        rows = [b"abc", None, b"", b"abcde", b"x"]
        settings = {**self.RAW, "shape": [3], "pad": 0, "truncate": True, "mask": "there"}
        found = read(tmp_path, {"c": pa.array(rows)}, {"x": settings})
        assert [bytes(row) for row in found["x"]] == [b"abc", b"\0\0\0", b"\0\0\0", b"abc", b"x\0\0"]
        assert found["there"].sum(axis=1).tolist() == [3, 0, 0, 3, 1]

    def test_a_row_of_another_size_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BadValueError, match=r"column 'c', row 5: a list of 2 values, not 3"):
            read(tmp_path, {"c": [b"abc"] * 5 + [b"ab"]}, {"x": {**self.RAW, "shape": [3]}})

    def test_chunks_that_begin_within_an_array(self) -> None:
        column = pa.chunked_array([pa.array([b"zz", b"ab", b"cd"]).slice(1)])
        feature = number("c", dtype="uint8", shape=(2,))
        assert array(handed_in({"c": column}, feature), "input:x").tolist() == [list(b"ab"), list(b"cd")]


def masked(columns: Any = "c", **settings: Any) -> dict[str, Any]:
    return {"x": {"columns": columns, "mask": "there", **settings}}


class TestMasks:
    @pytest.mark.parametrize(
        ("column", "filled"),
        [
            (pa.array([1.5, None, 3]), [1.5, 0, 3]),
            (pa.array([1, None, 3], pa.int8()), [1, 0, 3]),
            (pa.array([True, None, True]), [True, False, True]),
            (pa.array(["a", None, "b"]), [b"a", b"", b"b"]),
            (pa.array(["a", None, "b"]).dictionary_encode(), [b"a", b"", b"b"]),
            (pa.array([b"a", None, b"b"]), [b"a", b"", b"b"]),
            (pa.array([1, None, 3]).cast(pa.timestamp("us", "UTC")), [1, 0, 3]),
            (pa.array([1, None, 3]).cast(pa.timestamp("ms")), [1000, 0, 3000]),
            (pa.array([1, None, 3], pa.int32()).cast(pa.date32()), [1, 0, 3]),
            (pa.array([1, None, 3], pa.int32()).cast(pa.time32("ms")), [1000, 0, 3000]),
            (pa.array([1, None, 3]).cast(pa.duration("us")), [1, 0, 3]),
            (pa.array([0.5, None, 1], pa.float16()), [0.5, 0, 1]),
            (pa.array([1, None, 3]).dictionary_encode(), [1, 0, 3]),
        ],
    )
    def test_nulls_become_zero_and_the_mask_tells(self, tmp_path: Path, column: pa.Array, filled: list[Any]) -> None:
        found = read(tmp_path, {"c": column}, masked())
        assert list(found["x"]) == filled
        assert found["there"].dtype == np.bool_
        assert found["there"].tolist() == [True, False, True]

    def test_decimals(self, tmp_path: Path) -> None:
        found = read(tmp_path, {"c": pa.array([Decimal("2.5"), None], pa.decimal128(9, 2))}, masked(dtype="float64"))
        assert (found["x"].tolist(), found["there"].tolist()) == ([2.5, 0], [True, False])

    def test_a_value_of_ones_own_takes_the_place_of_zero(self, tmp_path: Path) -> None:
        found = read(tmp_path, {"c": pa.array([1.5, None])}, masked(), fill_null={"c": -3})
        assert (found["x"].tolist(), found["there"].tolist()) == ([1.5, -3], [True, False])

    def test_a_column_without_nulls_has_a_mask_too(self, tmp_path: Path) -> None:
        assert read(tmp_path, {"c": [1, 2]}, masked())["there"].tolist() == [True, True]

    def test_packed_columns_have_a_mask_for_each(self, tmp_path: Path) -> None:
        columns = {"a": pa.array([1, None]), "b": pa.array([None, 2.5]), "c": [5, 6]}
        found = read(tmp_path, columns, masked(["a", "b", "c"]))
        assert found["x"].tolist() == [[1, 0, 5], [0, 2.5, 6]]
        assert found["there"].tolist() == [[True, False, True], [False, True, True]]

    def test_a_mask_tells_padding_and_nulls_within_lists(self, tmp_path: Path) -> None:
        columns = lists_of([[1, None, 3], [4], None, []])
        found = read(tmp_path, columns, {"x": padded(mask="there")})
        assert found["x"].tolist() == [[1, 0, 3], [4, -1, -1], [-1] * 3, [-1] * 3]
        assert found["there"].tolist() == [[True, False, True], [True, False, False], [False] * 3, [False] * 3]

    def test_a_list_of_one_length_may_be_null(self, tmp_path: Path) -> None:
        found = read(tmp_path, lists_of([[1, 2], None]), masked(shape=[2, 1]))
        assert found["x"].tolist() == [[[1], [2]], [[0], [0]]]
        assert found["there"].tolist() == [[[True], [True]], [[False], [False]]]

    def test_lists_of_text(self, tmp_path: Path) -> None:
        found = read(tmp_path, lists_of([["a", None], None], pa.string()), {"x": padded("?", mask="there")})
        assert found["x"] == [[b"a", b"", b"?"], [b"?"] * 3]
        assert found["there"].tolist() == [[True, False, False], [False] * 3]

    def test_fields_of_a_null_struct_are_not_there(self, tmp_path: Path) -> None:
        found = read(tmp_path, {"who": people(null=5)}, masked("who.age"))
        assert found["x"].tolist() == [0, 1, 2, 3, 4, 0, 6]
        assert found["there"].tolist() == [True] * 5 + [False, True]

    def test_a_null_partition_column(self, tmp_path: Path) -> None:
        for value in ("3", "__HIVE_DEFAULT_PARTITION__"):
            write_file(tmp_path / f"k={value}" / "f.parquet", pa.table({"label": [0.0] * 3}))
        plan = plan_lake(tmp_path, inputs=masked("k"), shuffle=False)
        (batch,) = batches(plan, deal(plan)[0])
        assert sorted(zip(array(batch, "input:x"), array(batch, "input:there"), strict=True)) == (
            [(0, False)] * 3 + [(3, True)] * 3
        )

    def test_the_mask_goes_with_its_rows_where_they_are_held_out_and_permuted(self, tmp_path: Path) -> None:
        column = pa.array([None if i % 3 == 0 else i for i in range(60)])
        write_file(tmp_path / "f.parquet", pa.table({"c": column, "label": np.arange(60)}), group_rows=25)
        plan = plan_lake(tmp_path, inputs=masked(), validation={"fraction": 0.2}, shuffle_rows=30)
        for batch in batches(plan, deal(plan)[0], rows=7):
            row = array(batch, "target:y")
            assert array(batch, "input:there").tolist() == (row % 3 != 0).tolist()
            assert array(batch, "input:x").tolist() == np.where(row % 3, row, 0).tolist()

    def test_another_use_of_the_column_without_a_mask_refuses_its_nulls(self, tmp_path: Path) -> None:
        with pytest.raises(BadValueError, match=r"column 'c', row 1: null"):
            read(tmp_path, {"c": pa.array([1.5, None])}, {**masked(), "again": "c"})
