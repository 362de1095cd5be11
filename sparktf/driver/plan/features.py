"""Configured features against the schema of a source: the tensors' columns, dtypes and shapes."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sparktf.config.data_section import DataConfig, FeatureConfig
from sparktf.driver.plan.named_columns import is_pattern
from sparktf.errors import BadValueError, ColumnError, ConfigError
from sparktf.feature import TEXT, Feature, Kind
from sparktf.feed.arrays.arrow_types import fill_scalar, is_binary, is_list, is_text, takes_bytes
from sparktf.feed.arrays.nested import leaf_types, type_of
from sparktf.predicate import FillValue

DTYPES = (
    "bool",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    TEXT,
)
"""The dtypes that a tensor may have."""

_PACKED_DTYPE = "float32"


class Family(Enum):
    """The kinds of tensors that a column's values can become."""

    NUMBER = "number"
    DECIMAL = "decimal"
    TEXT = "text"
    STRUCT = "struct"
    NOTHING = "nothing"


class ColumnType(NamedTuple):
    """A column's type."""

    spark: str  # Spark's name, e.g. "bigint" or "array<float>"
    family: Family  # Of the values, if the column is a list
    dtype: str  # Default TensorFlow dtype of the values; "" if there is none
    is_list: bool = False
    length: int | None = None  # Values in each row, if the type fixes them


# (test of an Arrow type, Spark's name of it, dtype): unsigned integers are the next wider type, as Spark reads them.
_NUMBERS: tuple[tuple[Callable[[pa.DataType], bool], str, str], ...] = (
    (pt.is_boolean, "boolean", "bool"),
    (pt.is_int8, "tinyint", "int8"),
    (pt.is_int16, "smallint", "int16"),
    (pt.is_uint8, "smallint", "int16"),
    (pt.is_int32, "int", "int32"),
    (pt.is_uint16, "int", "int32"),
    (pt.is_int64, "bigint", "int64"),
    (pt.is_uint32, "bigint", "int64"),
    (pt.is_float16, "float", "float32"),
    (pt.is_float32, "float", "float32"),
    (pt.is_float64, "double", "float32"),
    (pt.is_date, "date", "int32"),
    (pt.is_time, "time", "int64"),
    (pt.is_timestamp, "timestamp", "int64"),
    (pt.is_duration, "interval day to second", "int64"),
)


def column_type(kind: pa.DataType) -> ColumnType:
    """Returns the column type for an Arrow type, with Spark's name."""
    if is_list(kind):
        value = column_type(kind.value_type)
        family = Family.NOTHING if value.is_list or value.family is Family.STRUCT else value.family
        length = kind.list_size if pt.is_fixed_size_list(kind) else None
        return ColumnType(f"array<{value.spark}>", family, value.dtype, True, length)
    if pt.is_dictionary(kind):
        return column_type(kind.value_type)
    if is_text(kind):
        return ColumnType("binary" if is_binary(kind) else "string", Family.TEXT, TEXT)
    number = next((ColumnType(spark, Family.NUMBER, dtype) for test, spark, dtype in _NUMBERS if test(kind)), None)
    return number or _other_type(kind)


def _other_type(kind: pa.DataType) -> ColumnType:
    if pt.is_uint64(kind):
        kind = pa.decimal128(20, 0)
    if pt.is_decimal(kind):
        return ColumnType(f"decimal({kind.precision},{kind.scale})", Family.DECIMAL, "")
    if pt.is_struct(kind):
        fields = ",".join(f"{field.name}:{column_type(field.type).spark}" for field in kind)
        return ColumnType(f"struct<{fields}>", Family.STRUCT, "")
    if pt.is_map(kind):
        spark = f"map<{column_type(kind.key_type).spark},{column_type(kind.item_type).spark}>"
        return ColumnType(spark, Family.NOTHING, "")
    return ColumnType(str(kind), Family.NOTHING, "")


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a source."""

    types: Mapping[str, pa.DataType]  # Column -> Arrow type, in the source's order
    # Column -> length of the list in its first row, if it is cheap to know; for messages
    first_length: Callable[[str], int | None]
    looked_at: str = ""  # Where they were looked for, for a sentence's end: " in the first file, ..."
    remedy: str = ""  # Half a sentence on what to do about a missing column

    def arrow_type(self, name: str, key: str) -> pa.DataType:
        """Returns the type of a column, or of a field of a struct ("user.age"). Raises `ColumnError` without one."""
        found = type_of(self.types, name)
        if found is None:
            raise self.missing(f"{key}: there is no column {name!r}", name, {**self.types, **self.leaves()})
        return found

    def column(self, name: str, key: str) -> ColumnType:
        """Returns the `ColumnType` of the column or field; see `arrow_type`."""
        return column_type(self.arrow_type(name, key))

    def missing(self, what: str, name: str, names: Iterable[str]) -> ColumnError:
        """Returns the error for a name that stands for no column.

        Args:
            what: The problem.
            names: Columns that may have been meant.
        """
        return ColumnError(f"{what}{self.looked_at}{nearest(name, names)}{self.remedy and f'; {self.remedy}'}")

    def leaves(self) -> dict[str, pa.DataType]:
        """Returns the columns with structs replaced by their fields, as patterns see them."""
        return leaf_types(self.types)


def resolve_features(data: DataConfig, schema: Schema) -> tuple[Feature, ...]:
    """Returns the tensors that the configuration asks for: inputs, targets, weights.

    Raises:
        ColumnError: a column is not in the source.
        BadValueError: a column's type cannot become the tensor.
        ConfigError: a dtype, shape, pattern, weight or `fill_null` does not fit the source.
    """
    inputs = [made for name, config in data.inputs.items() for made in _input(name, config, data, schema)]
    targets = [
        _feature(Kind.TARGET, name, f"data.targets.{name}", feature, schema) for name, feature in data.targets.items()
    ]
    features = (*inputs, *targets, *_weights(data, schema))
    _check_no_leak(data, features)
    _check_fill_null(data, features, schema)
    return features


def _input(name: str, config: FeatureConfig, data: DataConfig, schema: Schema) -> list[Feature]:
    """Returns an input, followed by its mask, if it has one."""
    key = f"data.inputs.{name}"
    feature = _feature(Kind.INPUT, name, key, config, schema)
    if config.mask is None:
        return [feature]
    names = [*data.inputs, *(other.mask for other in data.inputs.values())]
    if names.count(config.mask) > 1:
        raise ConfigError(
            f"{key}.mask: {config.mask!r} is already the name of another input or mask: give the mask another name"
        )
    mask = {"name": config.mask, "dtype": "bool", "is_mask": True}
    return [feature, feature.model_copy(update=mask)]


def _weights(data: DataConfig, schema: Schema) -> Iterable[Feature]:
    if data.sample_weight is None:
        return
    if isinstance(data.sample_weight, str):
        yield _weight("", data.sample_weight, "data.sample_weight", schema)
        return
    for output, column in data.sample_weight.items():
        key = f"data.sample_weight.{output}"
        if output not in data.targets:
            raise ConfigError(f"{key}: there is no target {output!r}{nearest(output, data.targets)}")
        yield _weight(output, column, key, schema)


def _weight(output: str, column: str, key: str, schema: Schema) -> Feature:
    if schema.column(column, key).is_list:
        raise BadValueError(
            f"{key}: column {column!r} is of type {schema.column(column, key).spark}, not a number: name one of numbers"
        )
    return _feature(Kind.WEIGHT, output, key, FeatureConfig(columns=column, dtype="float32"), schema)


def _feature(kind: Kind, name: str, key: str, config: FeatureConfig, schema: Schema) -> Feature:
    packed = not isinstance(config.columns, str)
    columns = (config.columns,) if isinstance(config.columns, str) else _expand(config.columns, key, schema)
    types = [_taken(schema.column(column, key), config) for column in columns]
    needs_number = packed or kind is not Kind.INPUT
    for column, found in zip(columns, types, strict=True):
        _check_family(column, found, config.dtype, key, needs_number)
        if packed and found.is_list:
            raise BadValueError(
                f"{key}: column {column!r} is of type {found.spark}; only single values can be packed: give it "
                "an input of its own"
            )
    dtype = config.dtype or (_PACKED_DTYPE if packed else types[0].dtype)
    if kind is not Kind.INPUT and config.mask is not None:
        raise ConfigError(f"{key}.mask: only inputs have masks; give rows without a target a sample weight of 0")
    if kind is not Kind.INPUT and config.ragged:
        raise ConfigError(f"{key}.ragged: only inputs can be ragged; use `shape` and `pad` for a target of lists")
    _check_fit(columns[0], types[0], dtype, config, key)
    return Feature(
        kind=kind,
        name=name,
        columns=columns,
        dtype=dtype,
        shape=_shape(columns, types[0], packed, config, key, schema),
        ragged=config.ragged,
        pad=config.pad,
        truncate=config.truncate,
        masked=config.mask is not None,
    )


def _taken(found: ColumnType, config: FeatureConfig) -> ColumnType:
    """Returns a column's type for the feature: with `dtype: uint8`, a binary column is a list of its bytes."""
    if found.spark == "binary" and config.dtype == "uint8":
        return found._replace(family=Family.NUMBER, dtype="uint8", is_list=True)
    return found


def _expand(names: Sequence[str], key: str, schema: Schema) -> tuple[str, ...]:
    """Returns the columns that names and patterns stand for; a pattern adds none that is there already."""
    columns: list[str] = []
    leaves = schema.leaves()
    for name in names:
        if name in leaves or not is_pattern(name):
            columns.append(name)
            continue
        matching = [column for column in leaves if fnmatchcase(column, name)]
        if not matching:
            raise schema.missing(f"{key}: no column matches {name!r}", name, leaves)
        seen = set(columns)
        columns.extend(column for column in matching if column not in seen)
    if not columns:
        raise ConfigError(f"{key}: the list of columns is empty: name one, or remove the key")
    return tuple(columns)


def _check_family(column: str, found: ColumnType, dtype: str | None, key: str, needs_number: bool) -> None:
    if dtype is not None and dtype not in DTYPES:
        raise ConfigError(f"{key}.dtype: {dtype!r} is not a dtype{nearest(dtype, DTYPES)}")
    is_of = f"{key}: column {column!r} is of type {found.spark}"
    if found.family is Family.STRUCT:
        raise BadValueError(f"{is_of}; name its fields: one as `{column}.<field>`, all in a list as `{column}.*`")
    if found.family is Family.NOTHING:
        raise BadValueError(f"{is_of}, which cannot become a tensor")
    if found.family is Family.TEXT and (needs_number or dtype not in (None, TEXT)):
        hint = "; `dtype: uint8` takes its bytes" if found.spark == "binary" else ""
        raise BadValueError(f"{is_of}, but a number is needed{hint}")
    if found.family is not Family.TEXT and dtype == TEXT:
        raise BadValueError(f"{is_of}, which cannot be cast to dtype {TEXT}")
    if found.family is Family.DECIMAL and dtype not in ("float32", "float64"):
        raise ConfigError(f"{is_of}, which is exact; add `dtype: float32` (or float64) to round it")


def _check_fit(column: str, found: ColumnType, dtype: str, config: FeatureConfig, key: str) -> None:
    """Checks `pad` and `truncate`, which fit lists into a shape, and `ragged`, which needs none."""
    if config.ragged:
        given = {"shape": config.shape, "pad": config.pad, "truncate": config.truncate or None, "mask": config.mask}
        for setting in [setting for setting, value in given.items() if value is not None]:
            raise ConfigError(f"{key}.{setting}: a ragged tensor has lists of any length: remove {setting}")
        if not found.is_list:
            raise ConfigError(f"{key}.ragged: column {column!r} is of type {found.spark}, not a list")
        return
    given = {"pad": config.pad is not None, "truncate": config.truncate}
    for setting in [setting for setting, is_given in given.items() if is_given]:
        if not found.is_list:
            raise ConfigError(f"{key}.{setting}: column {column!r} is of type {found.spark}, not a list")
        if config.shape is None:
            raise ConfigError(f"{key}.{setting}: the length is not set; add `shape: [n]`")
    if config.pad is not None and not _fits(config.pad, dtype):
        raise ConfigError(f"{key}.pad: {config.pad!r} is not a value of dtype {dtype}: give one that is")


def _fits(value: FillValue, dtype: str) -> bool:
    """Whether a value can stand in a tensor of the dtype."""
    if isinstance(value, (bool, str)) or dtype in (TEXT, "bool"):
        return {bool: "bool", str: TEXT}.get(type(value)) == dtype
    try:
        number = float(value)
    except OverflowError:
        return False
    if np.dtype(dtype).kind == "f":
        return True
    limits = np.iinfo(dtype)
    return number.is_integer() and limits.min <= value <= limits.max


def _shape(
    columns: Sequence[str], first: ColumnType, packed: bool, config: FeatureConfig, key: str, schema: Schema
) -> tuple[int, ...]:
    """Returns the shape of one row, or of one value where rows are ragged."""
    if config.ragged:
        return ()
    if config.shape is None:
        if first.is_list and first.length is None:
            hint = schema.first_length(columns[0]) or "n"
            of = f"column {columns[0]!r} is of type {first.spark}, whose rows may differ in length"
            raise ConfigError(f"{key}: {of}; add `shape: [{hint}]` (and `pad` to fill shorter ones) or `ragged: true`")
        if first.length is not None:
            return (first.length,)
        return (len(columns),) if packed else ()
    if first.family is Family.TEXT and not first.is_list:
        raise ConfigError(
            f"{key}.shape: column {columns[0]!r} is of type {first.spark}, which has no shape: remove shape"
        )
    size = len(columns) if packed else first.length if first.is_list else 1
    given = math.prod(config.shape)
    fits = size is None or given == size or (config.truncate if given < size else config.pad is not None)
    if not fits:
        raise ConfigError(
            f"{key}.shape: {list(config.shape)} is {given} values a row, but the source has {size}: give their shape"
        )
    return config.shape


def _check_no_leak(data: DataConfig, features: Sequence[Feature]) -> None:
    """Checks that no pattern takes in the label: the model would be perfect and useless."""
    learned = {column for feature in features if feature.kind is not Kind.INPUT for column in feature.columns}
    for feature in features:
        if feature.kind is Kind.INPUT and not feature.is_mask:
            named = data.inputs[feature.name].columns
            leaked = learned.intersection(feature.columns).difference([named] if isinstance(named, str) else named)
            if leaked:
                raise ConfigError(
                    f"data.inputs.{feature.name}: the pattern matches {min(leaked)!r}, which is a target or weight; "
                    "make it narrower, or name that column itself"
                )


def _check_fill_null(data: DataConfig, features: Sequence[Feature], schema: Schema) -> None:
    used = {column: [feature for feature in features if column in feature.columns] for column in _columns_of(features)}
    for column, value in data.fill_null.items():
        key = f"data.fill_null.{column}"
        if column not in used:
            raise ConfigError(f"{key}: no input, target or weight has this column{nearest(column, used)}")
        kind = schema.arrow_type(column, key)
        for feature in used[column]:
            _check_fill(value, kind, feature, key)


def _columns_of(features: Sequence[Feature]) -> set[str]:
    return {column for feature in features for column in feature.columns}


def _check_fill(value: FillValue, kind: pa.DataType, feature: Feature, key: str) -> None:
    if takes_bytes(feature, kind):
        if not _fits(value, feature.dtype):
            raise ConfigError(f"{key}: {value!r} is not a byte, but {feature.key} takes the bytes of the column")
        return
    try:
        fill_scalar(value, kind)
    except ValueError as error:
        raise ConfigError(f"{key}: {value!r} is not a value of type {column_type(kind).spark}") from error


def nearest(name: str, names: Iterable[str]) -> str:
    """Returns a half sentence with the name that was probably meant, or with some of the existing ones."""
    by_lower = {known.lower(): known for known in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1)
    if found:
        return f"; did you mean {by_lower[found[0]]!r}?"
    known = sorted(by_lower.values())
    return f"; there are {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}" if known else ""
