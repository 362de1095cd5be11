"""Bounds of `data.checks` against a source: whether the column exists, and has such a figure."""

from __future__ import annotations

from collections.abc import Sequence

from sparktf.config.checks import ChecksConfig, ColumnBounds
from sparktf.driver.plan.features import ColumnType, Family, Schema, nearest
from sparktf.errors import ConfigError
from sparktf.feature import Feature
from sparktf.statistics.column_statistics import number_of

_OTHER_NUMBERS = ("boolean", "time", "interval day to second")
"""Types that become numbers for the model, but are none for statistics."""


def check_bounds(checks: ChecksConfig, features: Sequence[Feature], schema: Schema) -> None:
    """Refuses bounds that can have no effect.

    Raises:
        ConfigError: a bound is for a column that is not used, or for a figure that a column of its type does not have.
    """
    used = {column for feature in features for column in feature.columns}
    for level, bounds in (("refuse", checks.refuse), ("warn", checks.warn)):
        key = f"data.checks.{level}"
        named = [(f"{key}.columns.{name}", name) for name in bounds.columns]
        for where, name in [*named, *((f"{key}.drift.ignore", name) for name in bounds.drift.ignore)]:
            if name not in used:
                raise ConfigError(f"{where}: no input, target or weight has a column {name!r}{nearest(name, used)}")
        for where, name in named:
            _check_column(where, bounds.columns[name], schema.column(name, where))


def _check_column(key: str, bounds: ColumnBounds, kind: ColumnType) -> None:
    is_number = kind.family in (Family.NUMBER, Family.DECIMAL) and _value(kind) not in _OTHER_NUMBERS
    is_plain = not kind.is_list and kind.spark != "binary"
    measured = {
        "min": is_number,
        "max": is_number,
        "mean": is_number and is_plain,
        "deviation": is_number and is_plain,
        "nan_share": is_number,
        "distinct": is_plain,
        "values": is_plain,
        "length": not is_plain,
    }
    for figure, is_measured in measured.items():
        if getattr(bounds, figure) is not None and not is_measured:
            raise ConfigError(
                f"{key}.{figure}: this statistic is not measured for columns of type {kind.spark}: remove it"
            )
    for figure in ("min", "max"):
        bound = getattr(bounds, figure)
        try:
            if bound is not None:
                number_of(bound, kind.spark)
        except ValueError as error:
            raise ConfigError(f"{key}.{figure}: {bound!r} is not a value of type {kind.spark}") from error


def _value(kind: ColumnType) -> str:
    return kind.spark.removeprefix("array<").removesuffix(">")
