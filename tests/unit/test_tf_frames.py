"""Rows as Examples and back, as TensorFlowOnSpark's `dfutil` makes them of each other."""

from __future__ import annotations

import pytest
from pyspark.sql import Row

from sparktf.compat.tensorflowonspark.tf_frames import fromTFExample, infer_schema, toTFExample
from sparktf.errors import BadValueError

DTYPES = [
    ("id", "bigint"),
    ("small", "tinyint"),
    ("truth", "boolean"),
    ("half", "double"),
    ("name", "string"),
    ("image", "binary"),
    ("tags", "array<string>"),
    ("numbers", "array<int>"),
]


def test_rows_are_the_same_after_they_were_examples() -> None:
    rows = [
        Row(
            id=i,
            small=-i % 100,
            truth=bool(i % 2),
            half=i / 2,
            name=f"é{i}",
            image=bytearray([i % 256, 0]),
            tags=["a", str(i)],
            numbers=[i, -1],
        )
        for i in range(5000)
    ]
    examples = list(toTFExample(DTYPES)(iter(rows)))
    assert {type(example) for example, _ in examples} == {bytearray}
    names = sorted(rows[0].asDict())
    assert fromTFExample(examples, ["image"]) == [Row(**{name: row[name] for name in names}) for row in rows]
    assert infer_schema(bytes(examples[0][0]), ["image"]).simpleString() == (
        "struct<half:double,id:bigint,image:binary,name:string,numbers:array<bigint>,small:bigint,tags:array<string>,"
        "truth:bigint>"
    )


def test_what_is_not_there_is_left_out_or_none() -> None:
    dtypes = [("n", "int"), ("empty", "array<float>"), ("s", "string")]
    [(example, _)] = toTFExample(dtypes)([Row(n=None, empty=[], s="")])
    assert fromTFExample([(example, None)]) == [Row(empty=None, s="")]
    assert list(toTFExample(dtypes)([])) == []


def test_a_type_that_no_feature_has_is_refused_by_name() -> None:
    with pytest.raises(BadValueError, match="column 'when' is of type timestamp"):
        toTFExample([("n", "int"), ("when", "timestamp")])
