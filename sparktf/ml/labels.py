"""Checks labels and weights as Spark's own estimators do, before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql import types as t

from sparktf.errors import BadValueError
from sparktf.predict.loaded import quoted

_MOST_CLASSES = 2**31 - 1
"""As Spark has it."""


class _Check(NamedTuple):
    """The check of the values of a column."""

    column: str
    param: str
    what: str
    wrong: Column  # Whether a row's value is not that
    value: Column


def check_numbers(dataset: DataFrame, label: str, weight: str) -> None:
    """Checks that labels are finite numbers, and weights too, of 0 or more; a weight's name may be "".

    Raises:
        BadValueError: names column and Param, and what is wrong.
    """
    _check_numeric(dataset, label, "labelCol", "a KerasRegressor predicts a number")
    value = _value(dataset, label)
    _refuse(dataset, _Check(label, "labelCol", "a finite number", ~_is_finite(value), value), weight)


def class_count(dataset: DataFrame, label: str, weight: str) -> int:
    """Checks labels and weights, and returns the number of classes: 2 or more, as metadata or the labels say.

    Raises:
        BadValueError: a label is no class: 0, 1, 2 and so on; or a weight is wrong.
    """
    mend = f"put StringIndexer(inputCol={label!r}, ...) before, and name its column"
    _check_numeric(dataset, label, "labelCol", mend)
    value, known = _value(dataset, label), _classes_of(dataset, label)
    wrong = ~_is_finite(value) | (value < 0) | (value >= (known or _MOST_CLASSES)) | (value != sql.floor(value))
    what = "a class: 0, 1, 2 and so on, as StringIndexer makes them"
    if known is not None:
        what = f"one of the {known} classes that the column's metadata has: 0 to {known - 1}"
    greatest = _refuse(dataset, _Check(label, "labelCol", what, wrong, value), weight)
    return max(2, known if known is not None else int(greatest or 0) + 1)


def _refuse(dataset: DataFrame, check: _Check, weight: str) -> float | None:
    """Raises an error for wrong labels or weights, counted in one pass, and returns the greatest label."""
    checks = [check]
    if weight:
        _check_numeric(dataset, weight, "weightCol", "a weight is 0 or more")
        value = _value(dataset, weight)
        wrong = ~_is_finite(value) | (value < 0)
        checks.append(_Check(weight, "weightCol", "a finite number, 0 or more", wrong, value))
    asked = [sql.max(check.value)]
    for each in checks:
        asked += [sql.count_if(each.wrong), sql.first(sql.when(each.wrong, each.value), ignorenulls=True)]
    greatest, *found = dataset.agg(*asked).collect()[0]
    for each, count, example in zip(checks, found[::2], found[1::2], strict=True):
        if count:
            values = f"{count:,} wrong values" if count > 1 else "a wrong value"
            told = "null" if example is None else repr(example)
            raise BadValueError(
                f"column {each.column!r} ({each.param}) has {values}, such as {told}: each has to be {each.what}"
            )
    return None if greatest is None else float(greatest)


def _check_numeric(dataset: DataFrame, name: str, param: str, mend: str) -> None:
    kind = dataset.select(_column(dataset, name)).schema[0].dataType
    if not isinstance(kind, t.NumericType):
        raise BadValueError(f"column {name!r} ({param}) is {kind.simpleString()}, and has to be numbers: {mend}")


def _classes_of(dataset: DataFrame, name: str) -> int | None:
    """Returns the number of classes in a column's metadata, None if it says none."""
    known: Mapping[str, Any] = dataset.select(_column(dataset, name)).schema[0].metadata.get("ml_attr", {})
    if known.get("type") == "binary":
        return 2
    if known.get("type") != "nominal":
        return None
    return known["num_vals"] if "num_vals" in known else len(known["vals"]) if "vals" in known else None


def _column(dataset: DataFrame, name: str) -> Column:
    return sql.col(quoted(name) if name in dataset.columns else name)


def _value(dataset: DataFrame, name: str) -> Column:
    return _column(dataset, name).cast("double")


def _is_finite(value: Column) -> Column:
    return sql.coalesce(~sql.isnan(value) & (sql.abs(value) < float("inf")), sql.lit(False))
