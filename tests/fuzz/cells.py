"""Kinds of columns of single values: how they are written, what may stand in them, and what a tensor has of them.

Part of the oracle: written from docs/use/data.md, it shares nothing with the feed.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Logical = Any
"""A value as the test has it: what Arrow takes for the column's type; times as whole numbers of the column's unit."""

FLOATS = ("float32", "float64", "float16")
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


class Told:
    """Is shown in one line where a case fails: Hypothesis would spread a dataclass over a page."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        del cycle
        printer.text(repr(self))


@dataclass(frozen=True)
class Cells(Told):
    """A kind of column.

    Attributes:
        spark: Spark's name of the type.
        arrow: The type that is written.
        values: What may stand there, null apart.
        number: Value -> NumPy scalar as the docs promise it before any cast; text -> bytes.
        dtype: Of the tensor where none is named; "" where one must be.
        fill: Value -> how `data.fill_null` spells it; None where nothing can.
        encodings: What Parquet has for it beside plain and dictionary.
        filters: Whether `where` compares it.
    """

    spark: str
    arrow: pa.DataType
    values: SearchStrategy[Logical] = field(repr=False)
    number: Callable[[Logical], Any] = field(repr=False)
    dtype: str
    fill: Callable[[Logical], Any] | None = field(default=None, repr=False)
    encodings: tuple[str, ...] = ()
    filters: bool = False

    @property
    def is_text(self) -> bool:
        return self.dtype == "string"

    def to_arrow(self, values: Sequence[Logical | None]) -> pa.Array:
        """Returns a column of the values."""
        return pa.array(values, self.arrow)

    def __repr__(self) -> str:
        return f"<{self.arrow}>"


def _whole(spark: str, arrow: pa.DataType, dtype: str, encodings: tuple[str, ...], filters: bool = False) -> Cells:
    kind = np.dtype(arrow.to_pandas_dtype())
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    edges = [edge for edge in (0, 1, 2, -1, low, high, 127, 128, 255, 256, 2**24 + 1, 2**53 + 1) if low <= edge <= high]
    values = st.sampled_from(edges) | st.integers(low, high)
    # Beyond 64 bits the docs promise nothing but rounding from the exact number: NumPy's own cast from uint64.
    read = np.dtype(dtype or "uint64").type
    return Cells(spark, arrow, values, read, dtype, int, encodings, filters)


_INT32 = ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT")
_BYTES = ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")

_ODD_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, float("nan"), float("inf"), float("-inf"), 1e300, -1e-300, 2.0**24 + 1, 300.0]


def _float(bits: int) -> SearchStrategy[float]:
    kind: Any = {16: np.float16, 32: np.float32, 64: np.float64}[bits]
    odd = [value for value in _ODD_FLOATS if not np.isfinite(value) or abs(value) <= float(np.finfo(kind).max)]
    return st.sampled_from([float(kind(value)) for value in odd]) | st.floats(width=bits)  # type: ignore[arg-type]


def _finite(value: float) -> Any:
    return value if np.isfinite(value) else None


def _micros(unit: str) -> Callable[[int], np.int64]:
    if unit == "ns":
        # Rounded down.
        return lambda value: np.int64(value // 1000)
    factor = {"s": 1_000_000, "ms": 1_000, "us": 1}[unit]
    return lambda value: np.int64(value * factor)


def _timestamp_fill(unit: str) -> Callable[[int], Any]:
    def spelled(value: int) -> str | None:
        micros = int(_micros(unit)(value))
        if unit == "ns" and value % 1000:
            return None
        try:
            when = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
        except OverflowError:
            return None
        digits = {"s": "seconds", "ms": "milliseconds"}.get(unit, "microseconds")
        return None if when.year < 1000 else when.isoformat(sep=" ", timespec=digits)

    return spelled


def _timestamps() -> list[Cells]:
    made = []
    for unit, per_s in (("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)):
        low, high = (-9 * 10**9, 9 * 10**9) if unit == "ns" else (-62_135_596_800, 253_402_300_799)
        edges = [0, 1, -1, 1_600_000_000 * per_s, -12_219_292_800 * per_s, low * per_s, high * per_s]
        if unit == "ns":
            edges = [edge for edge in edges if abs(edge) < 2**63]
        for zone in (None, "UTC", "America/New_York"):
            made.append(
                Cells(
                    "timestamp" if zone else "timestamp_ntz",
                    pa.timestamp(unit, zone),
                    st.sampled_from(edges) | st.integers(low * per_s, high * per_s),
                    _micros(unit),
                    "int64",
                    _timestamp_fill(unit) if zone is None else None,
                    ("DELTA_BINARY_PACKED",),
                    filters=True,
                )
            )
    return made


def _times() -> list[Cells]:
    made = []
    for unit, per_s, arrow in (("ms", 1000, pa.time32), ("us", 10**6, pa.time64), ("ns", 10**9, pa.time64)):
        last = 86_400 * per_s - 1
        values = st.sampled_from([0, 1, last]) | st.integers(0, last)
        made.append(Cells("time", arrow(unit), values, _micros(unit), "int64", None, ("DELTA_BINARY_PACKED",)))
    return made


def _decimals(digits: int, scale: int) -> Cells:
    last = 10**digits - 1
    whole = st.sampled_from([0, 1, -1, last, -last, 2**53 + 1, 2**24 + 1]).filter(lambda n: abs(n) <= last)
    values = (whole | st.integers(-last, last)).map(
        lambda n: Decimal((int(n < 0), Decimal(n).as_tuple().digits, -scale))
    )
    return Cells(f"decimal({digits},{scale})", pa.decimal128(digits, scale), values, lambda value: value, "")


def _text(values: SearchStrategy[bytes]) -> SearchStrategy[str]:
    return values.map(lambda value: value.decode("utf-8", "replace"))


_LETTERS = st.sampled_from([b"", b"a", b"b", b"ab", b"a\0b", "é".encode(), "日本".encode(), b" ", b"x" * 70])
_RAW = _LETTERS | st.binary(max_size=6) | st.just(b"\xff\xfe")


def _counts(kind: pa.DataType) -> Cells:
    """Returns a kind of column that Arrow alone knows: its files hold whole numbers."""
    values = st.sampled_from([0, 1, -1]) | st.integers(-(10**12), 10**12)
    return Cells("bigint", kind, values, np.int64, "int64", None, ("DELTA_BINARY_PACKED",))


SCALARS: tuple[Cells, ...] = (
    Cells("boolean", pa.bool_(), st.booleans(), np.bool_, "bool", bool, ("RLE",), filters=True),
    _whole("tinyint", pa.int8(), "int8", _INT32, True),
    _whole("smallint", pa.int16(), "int16", _INT32, True),
    _whole("int", pa.int32(), "int32", _INT32, True),
    _whole("bigint", pa.int64(), "int64", _INT32, True),
    _whole("smallint", pa.uint8(), "int16", _INT32),
    _whole("int", pa.uint16(), "int32", _INT32),
    _whole("bigint", pa.uint32(), "int64", _INT32),
    _whole("decimal(20,0)", pa.uint64(), "", _INT32),
    Cells("float", pa.float32(), _float(32), np.float32, "float32", _finite, ("BYTE_STREAM_SPLIT",), filters=True),
    Cells("double", pa.float64(), _float(64), np.float64, "float32", _finite, ("BYTE_STREAM_SPLIT",), filters=True),
    Cells(
        "date",
        pa.date32(),
        st.sampled_from([0, -1, 20_000, -354_285]) | st.integers(-719_162, 2_932_896),
        np.int32,
        "int32",
        lambda day: None if day < -354_285 else str(datetime.date(1970, 1, 1) + datetime.timedelta(day)),
        ("DELTA_BINARY_PACKED",),
        filters=True,
    ),
    *_timestamps(),
    *_times(),
    *(_decimals(digits, scale) for digits, scale in ((4, 4), (10, 2), (18, 9), (20, 0), (38, 18), (38, 37))),
    # Those in other units are microseconds where Spark hands them over, and in files what they are.
    _counts(pa.duration("us")),
    *(
        Cells("string", kind, _text(_LETTERS), str.encode, "string", str, _BYTES, filters=kind == pa.string())
        for kind in (pa.string(), pa.large_string())
    ),
    *(Cells("binary", kind, _RAW, bytes, "string", None, _BYTES) for kind in (pa.binary(), pa.large_binary())),
    Cells("binary", pa.binary(3), st.binary(min_size=3, max_size=3), bytes, "string", None, ("BYTE_STREAM_SPLIT",)),
)

IN_FILES: tuple[Cells, ...] = (
    *SCALARS,
    *(_counts(pa.duration(unit)) for unit in ("ms", "ns")),
    Cells("string", pa.string_view(), _text(_LETTERS), str.encode, "string", str),
    Cells("binary", pa.binary_view(), _RAW, bytes, "string"),
)
"""What files may have, too: types that only Arrow has."""


def _nearest(value: Decimal, to: type[Any]) -> Any:
    """Returns the float nearest to a decimal, of two equally near ones the one whose last bit is 0."""
    near = to(float(value))
    floats = [np.nextafter(near, to(-np.inf)), near, np.nextafter(near, to(np.inf))]
    exact = Fraction(value)
    bits = f"u{near.itemsize}"
    return min(floats, key=lambda found: (abs(Fraction(float(found)) - exact), int(found.view(bits)) & 1))


def cast(value: Any, dtype: str) -> Any:
    """Returns a NumPy scalar as one of another dtype; None where it does not fit.

    To floats all fit, rounded; to whole numbers and booleans what is exactly the same.
    """
    to = np.dtype(dtype)
    if isinstance(value, Decimal):
        return _nearest(value, to.type)
    if to.kind == "f":
        with np.errstate(over="ignore"):
            return np.asarray(value).astype(to)[()]
    exact = value.item()
    if isinstance(exact, float):
        if not exact.is_integer():
            return None
        exact = int(exact)
    low, high = (0, 1) if to.kind == "b" else (int(np.iinfo(to).min), int(np.iinfo(to).max))
    return to.type(exact) if low <= exact <= high else None
