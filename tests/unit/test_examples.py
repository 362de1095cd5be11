"""tensorflow.Example messages as columns, and back; those of TensorFlow itself: tests/integration/test_tfrecords.py."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparktf.feed.formats.byte_buffer import PADDING, padded
from sparktf.feed.formats.example_columns import example_columns
from sparktf.feed.formats.example_writer import example_messages
from sparktf.feed.formats.examples import ListKind, read_example, write_example
from sparktf.feed.formats.record_file import Records
from sparktf.feed.formats.record_types import record_type

INT, FLOAT, BYTES = ListKind.INT64, ListKind.FLOAT, ListKind.BYTES
Features = dict[str, tuple[ListKind, list[Any]]]


def records(*content: bytes) -> Records:
    stops = np.cumsum([len(record) for record in content], dtype=np.int64) + PADDING
    return Records(padded(b"".join(content)), stops - np.array([len(r) for r in content], np.int64), stops)


def refuse(row: int, name: str, reason: str) -> None:
    raise ValueError(f"{name} {row}: {reason}")


def columns(types: Mapping[str, str], *content: bytes) -> dict[str, list[Any]]:
    found = example_columns(records(*content), {name: record_type(kind) for name, kind in types.items()}, refuse)
    return {name: column.to_pylist() for name, column in found.items()}


LONG = "ü" * 150
int64s = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(width=32, allow_nan=False)
lists = st.one_of(
    st.lists(int64s, max_size=4).map(lambda values: (INT, values)),
    st.lists(floats, max_size=4).map(lambda values: (FLOAT, values)),
    st.lists(st.binary(max_size=300), max_size=4).map(lambda values: (BYTES, values)),
)
rows = st.fixed_dictionaries(
    {},
    optional={
        "a": st.lists(int64s, max_size=4).map(lambda values: (INT, values)),
        "é" * 50: st.lists(floats, max_size=4).map(lambda values: (FLOAT, values)),
        LONG: st.lists(int64s, max_size=4).map(lambda values: (INT, values)),
        LONG + "x": st.lists(int64s, max_size=4).map(lambda values: (INT, values)),
        "text of any length": st.lists(st.binary(max_size=300), max_size=4).map(lambda values: (BYTES, values)),
        "other": lists,
    },
)
TYPES = {LONG: "array<bigint>", "a": "array<bigint>", "é" * 50: "array<float>", "text of any length": "array<binary>"}


@given(st.lists(rows, max_size=6), st.randoms())
def test_features_are_found_in_any_order_and_whatever_else_a_record_has(found: list[Features], random: Any) -> None:
    shuffled = [dict(random.sample(sorted(row.items()), len(row))) for row in found]
    assert columns(TYPES, *map(write_example, shuffled)) == {
        name: [row[name][1] if name in row and (row[name][0], name) else None for row in found] for name in TYPES
    }


@given(st.lists(st.tuples(int64s, floats, st.text()), min_size=1, max_size=20))
def test_single_values_are_what_they_were(found: list[tuple[int, float, str]]) -> None:
    messages = [write_example({"i": (INT, [i]), "f": (FLOAT, [f]), "s": (BYTES, [s.encode()])}) for i, f, s in found]
    assert columns({"i": "bigint", "f": "float", "s": "string"}, *messages) == {
        "i": [i for i, _, _ in found],
        "f": [f for _, f, _ in found],
        "s": [s for _, _, s in found],
    }


def unpacked(name: str, kind: ListKind, values: Sequence[float]) -> bytes:
    """Returns a record whose numbers have a tag each, which protobuf allows and TensorFlow's writers do not do."""
    if kind is FLOAT:
        content = b"".join(b"\x0d" + struct.pack("<f", value) for value in values)
    else:
        content = b"".join(b"\x08" + bytes([int(value)]) for value in values)
    feature = bytes([kind << 3 | 2, len(content)]) + content
    entry = b"\x0a" + bytes([len(name)]) + name.encode() + b"\x12" + bytes([len(feature)]) + feature
    features = b"\x0a" + bytes([len(entry)]) + entry
    return b"\x0a" + bytes([len(features)]) + features


def test_what_protobuf_allows_besides_is_read_too() -> None:
    usual = write_example({"x": (FLOAT, [3.0]), "i": (INT, [7])})
    twice = write_example({"x": (FLOAT, [9.0])}) + write_example({"x": (FLOAT, [4.0])})  # the later one counts
    unknown = b"\x1a\x02hi" + usual + b"\x20\x05"
    found = columns(
        {"x": "float", "i": "bigint"}, usual, unpacked("x", FLOAT, [5]), unpacked("i", INT, [8]), twice, unknown, b""
    )
    assert found == {"x": [3, 5, None, 4, 3, None], "i": [7, None, 8, None, 7, None]}
    assert columns({"x": "array<float>"}, unpacked("x", FLOAT, [1, 2, 3]), usual) == {"x": [[1, 2, 3], [3]]}


@pytest.mark.parametrize(
    ("kind", "feature", "reason"),
    [
        ("bigint", (FLOAT, [1.0]), "it has floats, but a column of type int64 is made of integers"),
        ("float", (BYTES, [b"1"]), "it has bytes, but a column of type float is made of floats"),
        ("bigint", (INT, [1, 2]), "it has 2 values, but a column of type int64 has one"),
        ("string", (BYTES, [b"a", b"b"]), "it has 2 values"),
        ("tinyint", (INT, [128]), "128 not in range"),
        ("array<smallint>", (INT, [1, -40000]), "-40000 not in range"),
        ("boolean", (INT, [2]), "neither 0 nor 1"),
        ("string", (BYTES, [b"\xff"]), "Invalid UTF8"),
    ],
)
def test_what_is_no_value_of_the_column_is_told_by_record(kind: str, feature: Any, reason: str) -> None:
    good = write_example({})
    with pytest.raises(ValueError, match=f"x 2: .*{reason}"):
        columns({"x": kind}, good, good, write_example({"x": feature}), good)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_message_are_told_and_read_as_the_plain_reader_does(content: bytes) -> None:
    usual = write_example({"x": (INT, [1])})
    try:
        feature = read_example(content).get("x")
    except ValueError:
        with pytest.raises(ValueError, match=r" 1: it is not a tensorflow\.Example"):
            columns({"x": "array<bigint>"}, usual, content, usual)
        return
    if feature is None or feature[0] in (INT, ListKind.NOTHING):
        expected = None if feature is None or feature[0] is not INT else feature[1]
        assert columns({"x": "array<bigint>"}, usual, content, usual)["x"] == [[1], expected, [1]]


@given(st.lists(st.integers(0, 400), min_size=1, max_size=8), st.randoms())
def test_a_message_that_is_cut_or_changed_anywhere_ends_in_an_error_or_in_rows(sizes: list[int], random: Any) -> None:
    whole = bytearray(write_example({f"k{i}": (BYTES, [b"x" * size]) for i, size in enumerate(sizes)}))
    for _ in range(3):
        whole[random.randrange(len(whole))] = random.randrange(256)
    content = bytes(whole[: random.randrange(len(whole) + 1)])
    try:
        expected = read_example(content)
    except ValueError:
        expected = None
    try:
        found = columns({"k0": "array<binary>"}, content)
    except ValueError:
        assert expected is None or expected.get("k0", (BYTES, []))[0] not in (BYTES, ListKind.NOTHING)
    else:
        values = None if expected is None else expected.get("k0", (ListKind.NOTHING, []))
        assert values is not None
        assert found == {"k0": [values[1] if values[0] is BYTES else None]}


BATCH = pa.record_batch(
    {
        "i": pa.array([1, -1, None, 2**63 - 1, -(2**63)], pa.int64()),
        "t": pa.array([True, False, None, True, True]),
        "n": pa.array([1, None, 3, -128, 127], pa.int8()),
        "f": pa.array([1.5, None, -0.0, 0.25, 2.0**100], pa.float32()),
        "d": pa.array([1.5, 2, 3, 4, 5.0], pa.float64()),
        "s": pa.array(["a", "", "é" * 200, None, "x"]),
        "y": pa.array([b"\xff\x00", b"", None, b"z" * 300, b"q"]),
        "li": pa.array([[1, 2, -5], [], None, [7] * 300, [0]], pa.list_(pa.int64())),
        "lf": pa.array([[1, 2], [], None, [0.5] * 100, [0]], pa.list_(pa.float32())),
        "ls": pa.array([["a", "", "ccc"], [], None, ["x" * 200] * 3, [""]]),
    }
)
BATCH_TYPES = {"i": "bigint", "t": "boolean", "n": "tinyint", "f": "float", "d": "double", "s": "string", "y": "binary"}
BATCH_TYPES |= {"li": "array<bigint>", "lf": "array<float>", "ls": "array<string>"}


@pytest.mark.parametrize(("start", "count"), [(0, 5), (1, 3), (2, 0)])
def test_what_is_written_is_read_back(start: int, count: int) -> None:
    part = BATCH.slice(start, count)
    messages = example_messages(part).to_pylist()
    assert columns(BATCH_TYPES, *messages) == part.to_pydict()
    plain = [read_example(message) for message in messages]
    assert [row["li"][1] if "li" in row else None for row in plain] == part["li"].to_pylist()


def test_a_column_of_which_no_feature_can_be_made_is_refused_by_name() -> None:
    days = pa.record_batch({"day": pa.array([1], pa.date32())})
    with pytest.raises(ValueError, match=r"column 'day' is of type date32.*cast it"):
        example_messages(days)
    holes = pa.record_batch({"x": pa.array([[1, None]], pa.list_(pa.int64()))})
    with pytest.raises(ValueError, match="column 'x': a null within a list"):
        example_messages(holes)


def test_a_sequence_example_is_refused_by_name() -> None:
    context = write_example({"a": (INT, [1])})
    for record in (context + b"\x12\x02\x0a\x00", b"\x12\x00" + context, b"\x12\x00"):
        with pytest.raises(ValueError, match=r"it is a tensorflow\.SequenceExample, which is not supported: write"):
            read_example(record)
        with pytest.raises(ValueError, match=r"not a tensorflow\.Example: it is a tensorflow\.SequenceExample"):
            columns({"a": "bigint"}, write_example({"a": (INT, [5])}), record)
