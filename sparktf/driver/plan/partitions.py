"""Hive-style partition folders (`date=2026-11-20/region=de/`): their columns, with values typed as Spark types them.

Spark tries whole numbers, decimals, doubles, timestamps, times and dates, as Java reads them; all else is text. It
recognizes numbers and dates by the value as it is escaped in the path.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from zoneinfo import ZoneInfo

from sparktf.driver.plan.spark_reads import SparkReads
from sparktf.errors import BadValueError
from sparktf.sequence import PartitionValue

_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile("%([0-9a-fA-F]{2})")

# Java takes digits of any script for whole numbers and decimals, and no others for the rest.
_DIGIT = r"(?:\d(?<=[\0-\uffff]))"
_WHOLE = re.compile(rf"[+-]?{_DIGIT}+")
_DECIMAL = re.compile(rf"[+-]?(?=\.?{_DIGIT})({_DIGIT}*)(?:\.({_DIGIT}*))?(?:[eE]([+-]?{_DIGIT}{{1,9}}))?")
# Java reads "1d" and "2f" as numbers, with blanks around them.
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?", re.ASCII)
_NO_NUMBER = re.compile(r"[+-]?(?:NaN|Infinity)")
_HEX = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?\d+)[dDfF]?", re.ASCII)
_BLANKS = "".join(map(chr, range(33)))
_DATE = re.compile(r"-?\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(r"(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2}(?:\.\d)?)", re.ASCII)
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?", re.ASCII)
_BEFORE_YEAR_1 = re.compile("-|0000-")
"""Years of Java's calendar that Python's lacks."""

# Types that together make another one; decimals aside, all other mixtures are text. A double cannot hold every bigint.
_WIDER = {
    frozenset({"int", "bigint"}): "bigint",
    frozenset({"int", "double"}): "double",
    frozenset({"date", "timestamp"}): "timestamp",
}

_MAX_DIGITS = 38
_DIGITS = {"int": 10, "bigint": 20}
"""Digits of a decimal that whole numbers become beside other decimals."""

_TIME_TYPE = "time(6)"
_DECIMAL_TYPE = re.compile(r"decimal\((\d+),0\)")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partition columns of a source."""

    names: tuple[str, ...]  # Outermost folder first
    types: tuple[str, ...]  # Spark's types; values of those that `partition_type` does not know are text here
    # For each file, its value of each column; a date in ISO format, a decimal as its digits, a timestamp in
    # microseconds since 1970-01-01 UTC
    values: tuple[tuple[PartitionValue, ...], ...]


NO_PARTITIONS = Partitions((), (), ())
"""Of a source that is no folder of files."""


def unreadable(partitions: Partitions, used: Iterable[str]) -> str:
    """Returns why only Spark can read some partition columns, for a sentence's end; "" if trainers can."""
    wanted = frozenset(used)
    for i, (name, kind) in enumerate(zip(partitions.names, partitions.types, strict=True)):
        if name not in wanted:
            continue
        if kind == _TIME_TYPE:
            return f"partition column {name!r} is of type {kind}"
        if kind in ("date", "timestamp"):
            values = (row[i] for row in partitions.values)
            odd = next((v for v in values if isinstance(v, str) and (kind != "date" or _BEFORE_YEAR_1.match(v))), None)
            if odd is not None:
                return f"partition column {name!r} has the {kind} {odd}"
    return ""


def read_partitions(folders: Sequence[str], reads: SparkReads) -> Partitions:
    """Returns the partition columns of files in these folders, which are relative to the source.

    Raises:
        BadValueError: the folders have different columns, one of them twice, or an empty value; or a value does not
            fit the type that all values of its column have in common.
    """
    parsed = {folder: _parse(folder, reads) for folder in dict.fromkeys(folders)}
    first = folders[0]
    names = tuple(name for name, _ in parsed[first])
    for folder, pairs in parsed.items():
        if [reads.same(name) for name, _ in pairs] != [reads.same(name) for name in names]:
            raise BadValueError(
                f"partition folders differ: {first or '.'!r} and {folder or '.'!r} have different columns"
            )
    raw_columns = [[pairs[i][1] for pairs in parsed.values()] for i in range(len(names))]
    types = tuple(_common_type(column, reads) for column in raw_columns)
    values = {
        folder: tuple(_typed(raw, kind, reads, folder) for (_, raw), kind in zip(pairs, types, strict=True))
        for folder, pairs in parsed.items()
    }
    return Partitions(names, types, tuple(values[folder] for folder in folders))


def _parse(folder: str, reads: SparkReads) -> list[tuple[str, str]]:
    """Returns the names and raw values of a relative path; folders without "=" stand for nothing."""
    pairs: list[tuple[str, str]] = []
    seen: set[str] = set()
    for part in folder.split("/"):
        name, equals, raw = part.partition("=")
        if not equals:
            continue
        if not raw or not name:
            raise BadValueError(
                f"partition folder {part!r} in {folder!r}: the name or the value is empty: remove the folder"
            )
        name = _unescaped(name)
        if reads.same(name) in seen:
            raise BadValueError(
                f"partition folder {part!r} in {folder!r}: there are two columns called {name!r}: rename one"
            )
        seen.add(reads.same(name))
        pairs.append((name, raw))
    return pairs


def _unescaped(raw: str) -> str:
    """Returns a name or value without escapes, each of which stands for one character below 256."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), raw)


def _common_type(values: Iterable[str], reads: SparkReads) -> str:
    types = dict.fromkeys(_type_of(raw, reads) for raw in dict.fromkeys(values))
    return reduce(_wider, types)


def _wider(one: str, other: str) -> str:
    """Returns the common type of values of two types."""
    if other in (one, "void"):
        return one
    if one == "void":
        return other
    both = frozenset({one, other})
    if both in _WIDER:
        return _WIDER[both]
    digits = [_digits(kind) for kind in both]
    return "string" if 0 in digits else f"decimal({max(digits)},0)"


def _digits(kind: str) -> int:
    """Returns the digits of a decimal that holds a type's values; 0 where there is none."""
    found = _DECIMAL_TYPE.fullmatch(kind)
    return int(found[1]) if found else _DIGITS.get(kind, 0)


def _type_of(raw: str, reads: SparkReads) -> str:
    if raw == _NULL:
        return "void"
    if not reads.infers_partitions:
        return "string"
    if _WHOLE.fullmatch(raw):
        bits = int(raw).bit_length() if int(raw) >= 0 else (-int(raw) - 1).bit_length()
        if bits < 64:
            return "int" if bits < 32 else "bigint"
    if digits := _decimal_digits(raw):
        return f"decimal({digits},0)"
    if _double(raw) is not None:
        return "double"
    return _time_type(raw, reads)


def _time_type(raw: str, reads: SparkReads) -> str:
    unescaped = _unescaped(raw)
    if found := _TIMESTAMP.fullmatch(unescaped):
        day, time = found.groups()
        return "timestamp" if _is_date(day) and _TIME.fullmatch(time) else "string"
    if reads.infers_times and _TIME.fullmatch(unescaped):
        return _TIME_TYPE
    return "date" if _DATE.fullmatch(raw) and _is_date(raw) else "string"


def _is_date(day: str) -> bool:
    day = day.removeprefix("-")
    try:
        datetime.date.fromisoformat(f"2000{day[4:]}" if day.startswith("0000") else day)
    except ValueError:
        return False
    return True


def _decimal_digits(raw: str) -> int:
    """Returns the digits of a decimal without fraction; 0 for a value that Spark does not take as one."""
    found = _DECIMAL.fullmatch(raw)
    if found is None:
        return 0
    whole, fraction, exponent = found[1], found[2] or "", int(found[3] or 0)
    scale = len(fraction) - exponent
    digits = len(str(int(whole + fraction))) - scale
    return digits if scale <= 0 and digits <= _MAX_DIGITS else 0


def _double(raw: str) -> float | None:
    raw = raw.strip(_BLANKS)
    if _NO_NUMBER.fullmatch(raw):
        return float(raw)
    if found := _NUMBER.fullmatch(raw):
        return float(found[1])
    if found := _HEX.fullmatch(raw):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return float("-inf" if raw.startswith("-") else "inf")
    return None


def _typed(raw: str, kind: str, reads: SparkReads, folder: str) -> PartitionValue:
    if raw == _NULL:
        return None
    if kind in ("int", "bigint"):
        return int(raw)
    if kind == "double":
        number = _double(raw)
        if number is None:
            raise BadValueError(f"partition folder {folder!r}: {raw!r} is not a double, but other values are")
        return number
    if _DECIMAL_TYPE.fullmatch(kind):
        return _decimal(raw)
    if kind == "timestamp":
        return _microseconds(_unescaped(raw), reads.zone)
    return _unescaped(raw)


def _decimal(raw: str) -> str:
    mantissa, _, exponent = raw.replace("E", "e").partition("e")
    whole, _, fraction = mantissa.partition(".")
    zeros = int(exponent or 0) - len(fraction)
    return str(int(whole + fraction) * 10**zeros)


def _microseconds(text: str, zone: str) -> PartitionValue:
    """Returns a timestamp in a zone; the text where Python cannot parse it."""
    if _BEFORE_YEAR_1.match(text) or not zone:
        return text
    there = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC if zone == "UTC" else ZoneInfo(zone))
    return (there - _EPOCH) // datetime.timedelta(microseconds=1)
