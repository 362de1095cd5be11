"""Hive-style partition folders (`date=2026-11-20/region=de/`): their columns, with values typed as Spark types them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from sparktf.errors import BadValueError
from sparktf.plan import PartitionValue

_NULL = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
# Java reads "1d" and "2f" as numbers, and so Spark does.
_FRACTION = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)

# Types that together make another one; all other mixtures are strings. A double cannot hold every bigint.
_WIDER = {
    frozenset({"int", "bigint"}): "bigint",
    frozenset({"int", "double"}): "double",
}


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partition columns of a source.

    Attributes:
        names: Column names, outermost folder first.
        types: Their Spark types: "int", "bigint", "double", "date" or "string".
        values: For each file, its value of each column; a date in ISO format.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    values: tuple[tuple[PartitionValue, ...], ...]


NO_PARTITIONS = Partitions((), (), ())
"""Of a source that is no folder of files."""


def read_partitions(folders: Sequence[str]) -> Partitions:
    """Returns the partition columns of files in these folders, which are relative to the source.

    Raises:
        BadValueError: the folders have different columns, or an empty value.
    """
    parsed = {folder: _parse(folder) for folder in dict.fromkeys(folders)}
    first = folders[0]
    names = tuple(name for name, _ in parsed[first])
    for folder, pairs in parsed.items():
        if tuple(name for name, _ in pairs) != names:
            raise BadValueError(
                f"partition folders differ: {first or '.'!r} and {folder or '.'!r} have different columns"
            )
    raw_columns = [[pairs[i][1] for pairs in parsed.values()] for i in range(len(names))]
    types = tuple(_common_type(column) for column in raw_columns)
    values = {
        folder: tuple(_typed(raw, kind) for (_, raw), kind in zip(pairs, types, strict=True))
        for folder, pairs in parsed.items()
    }
    return Partitions(names, types, tuple(values[folder] for folder in folders))


def _parse(folder: str) -> list[tuple[str, str | None]]:
    """Returns the names and raw values of a relative path; folders without "=" stand for nothing."""
    pairs: list[tuple[str, str | None]] = []
    for part in folder.split("/"):
        name, equals, raw = part.partition("=")
        if not equals:
            continue
        if not raw or not name:
            raise BadValueError(f"partition folder {part!r} in {folder!r}: the name or the value is empty")
        pairs.append((unquote(name), None if raw == _NULL else unquote(raw)))
    return pairs


def _common_type(values: Iterable[str | None]) -> str:
    types = frozenset(_type_of(raw) for raw in dict.fromkeys(values) if raw is not None)
    if len(types) == 1:
        return next(iter(types))
    return _WIDER.get(types, "string")


def _type_of(raw: str) -> str:
    if _WHOLE.fullmatch(raw):
        bits = int(raw).bit_length() if int(raw) >= 0 else (-int(raw) - 1).bit_length()
        return "int" if bits < 32 else "bigint" if bits < 64 else "string"
    if _FRACTION.fullmatch(raw):
        return "double"
    return "date" if _is_date(raw) else "string"


def _is_date(raw: str) -> bool:
    if not _DATE.fullmatch(raw):
        return False
    try:
        datetime.date.fromisoformat(raw)
    except ValueError:
        return False
    return True


def _typed(raw: str | None, kind: str) -> PartitionValue:
    if raw is None:
        return None
    if kind in ("int", "bigint"):
        return int(raw)
    fraction = _FRACTION.fullmatch(raw)
    return float(fraction.group(1)) if kind == "double" and fraction else raw
