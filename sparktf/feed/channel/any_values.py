"""Values of Python in a closed encoding, equal in type and value when they are read. Nothing is unpickled.

It is MessagePack's: None, booleans, integers of 64 bits, floats, texts, bytes, lists, and dicts with keys of these. A
list that begins with a mark (an extension type without content) is a value of another type: of one in `_TYPES`, or of
those that `add_type` adds. A long list of numbers of one type is one, too: they are written one after another, as an
array has them. A type is found by its mark alone: a message cannot name what is made of it.
"""

from __future__ import annotations

import array
import datetime
import reprlib
import uuid
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import chain, islice
from operator import attrgetter
from typing import Any
from zoneinfo import ZoneInfo

import msgpack
import numpy as np

from sparktf.feed.channel.alike_numbers import alike_numbers

_PLAIN = frozenset({type(None), bool, int, float, str, bytes})
"""Types that MessagePack has, and that contain no other values."""
_ANY_TEXT = "surrogatepass"
"""Texts of Python may have halves of surrogate pairs: names of files, for example."""
_FITTING = (
    "numbers, texts, bytes, None, lists, tuples, dicts, sets, NumPy's arrays and numbers, Rows, vectors, dates and "
    "times, Decimals"
)


class UnfitValueError(TypeError):
    """A value has a type that the encoding does not have."""


@dataclass(frozen=True, slots=True)
class MarkedType:
    """A type of values that are encoded as a mark, a head, and parts.

    Attributes:
        parts: Returns the parts of a value, which are values again.
        reader: Returns, for a head, the function that makes a value of its parts.
        head: Returns what a value has in common with its neighbours, such as the names of fields; None for nothing.
        in_columns: Whether each part is as good as a column of its own.
    """

    code: int  # 0 to 127, never another one
    parts: Callable[[Any], Sequence[Any]]
    reader: Callable[[Any], Callable[[Sequence[Any]], Any]]
    head: Callable[[Any], Hashable] | None = None
    in_columns: bool = False


class _Mark:
    """The first item of a list that is a value of a marked type."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


def pack_value(value: Any) -> bytes:
    """Encodes a value.

    Raises:
        UnfitValueError: it, or what it contains, has a type that the encoding does not have; the message says where.
    """
    try:
        return _packed(value)
    except UnfitValueError as error:
        where = _place(value)
        raise UnfitValueError(f"{error}{f' at {where}' if where else ''}; what goes: {_FITTING}") from None
    except RecursionError:
        raise UnfitValueError("it contains itself, or is nested hundreds of levels deep") from None
    except ValueError as error:
        raise UnfitValueError(f"it contains itself, is nested too deep, or is too large: {error}") from None


def unpack_value(content: bytes | memoryview) -> Any:
    """Returns the value that was encoded.

    Raises:
        ValueError, TypeError, KeyError: the content is not of `pack_value`.
    """
    return msgpack.unpackb(content, list_hook=_made, ext_hook=_mark, strict_map_key=False, unicode_errors=_ANY_TEXT)


def marked_type(kind: type) -> MarkedType | None:
    """Returns how values of exactly this type are encoded; None if they are not, or need no mark."""
    found = _TYPES.get(kind)
    if found is None:
        found = _ADDED.get(f"{kind.__module__}.{kind.__qualname__}")
        if found is None and issubclass(kind, tuple) and hasattr(kind, "_fields"):
            found = _NAMED
        if found is None and issubclass(kind, np.generic) and kind is not np.void:
            found = _SCALAR
        if found is not None:
            _TYPES[kind] = found
    return found


def reader_of(code: int, head: Any) -> Callable[[Sequence[Any]], Any]:
    """Returns the function that makes a value of a marked type of its parts. Raises `KeyError` for an unknown mark."""
    return _CODES[code].reader(head)


def add_type(name: str, marked: MarkedType) -> None:
    """Adds a type of another package's, `module.Class`, which is not imported for it."""
    _ADDED[name] = _CODES[marked.code] = marked


# ---- encoding ----


def _packed(value: Any) -> bytes:
    content: bytes = msgpack.packb(_ready(value), default=_large_integer, strict_types=True, unicode_errors=_ANY_TEXT)
    return content


def _ready(value: Any) -> Any:
    """Returns a value in MessagePack's types."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return _ready_list(value)
    if kind is dict:
        if not _PLAIN.issuperset(map(type, value)):
            return [_DICT_MARK, None, *map(_ready, chain.from_iterable(value.items()))]
        if _PLAIN.issuperset(map(type, value.values())):
            return value
        return {key: _ready(item) for key, item in value.items()}
    marked = marked_type(kind)
    if marked is None:
        hint = " (its .numpy() goes)" if hasattr(value, "numpy") else ""
        raise UnfitValueError(f"a value of type {kind.__module__}.{kind.__qualname__}{hint}")
    head = None if marked.head is None else _ready(marked.head(value))
    parts = marked.parts(value)
    ready = parts if _PLAIN.issuperset(map(type, parts)) else map(_ready, parts)
    return [msgpack.ExtType(marked.code, b""), head, *ready]


def _ready_list(value: list[Any]) -> list[Any]:
    numbers = alike_numbers(value)
    if numbers is not None:
        return [_NUMBERS_MARK, None, numbers.dtype.kind, numbers.tobytes()]
    return value if _PLAIN.issuperset(map(type, value)) else list(map(_ready, value))


def _large_integer(value: Any) -> Any:
    """Returns an integer beyond 64 bits as MessagePack has it: the only thing that `_ready` leaves unready."""
    return [_INTEGER_MARK, None, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)]


def _place(value: Any) -> str:
    """Returns the place of the first part of a value that cannot be encoded, as Python writes it; "" for itself."""
    for where, part in _contents(value):
        try:
            _packed(part)
        except UnfitValueError:
            return where + _place(part)
        except (RecursionError, ValueError):
            continue
    return ""


def _contents(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"[{reprlib.repr(key)}]", item) for key, item in value.items())
        yield from ((f"(the key {reprlib.repr(key)})", key) for key in value)
    elif isinstance(value, (tuple, list)):
        names = getattr(value, "__fields__", None) or range(len(value))
        yield from ((f"[{name!r}]", item) for name, item in zip(names, tuple(value), strict=False))
    elif isinstance(value, (set, frozenset)):
        yield from (("", item) for item in value)


# ---- decoding ----


def _mark(code: int, content: bytes) -> _Mark:
    if content:
        raise ValueError(f"extension type {code} has content")
    return _Mark(code)


def _made(items: list[Any]) -> Any:
    if not items or type(items[0]) is not _Mark:
        return items
    return reader_of(items[0].code, items[1])(items[2:])


def _of(make: Callable[..., Any]) -> Callable[[Any], Callable[[Sequence[Any]], Any]]:
    """Returns the reader of values without a head that are called with their parts."""
    return lambda _: lambda parts: make(*parts)


def _with(make: Callable[[Any], Any]) -> Callable[[Any], Callable[[Sequence[Any]], Any]]:
    """Returns the reader of values without a head that are made of all parts."""
    return lambda _: make


def _pairs(items: Sequence[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(islice(items, 0, None, 2), islice(items, 1, None, 2), strict=True)


def _items(value: Mapping[Any, Any]) -> list[Any]:
    return list(chain.from_iterable(value.items()))


# ---- dates and times ----

_DATE_TIME = attrgetter("year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo", "fold")
_TIME = attrgetter("hour", "minute", "second", "microsecond", "tzinfo", "fold")


def _date_time(*parts: Any) -> datetime.datetime:
    return datetime.datetime(*parts[:-1], fold=parts[-1])


def _time(*parts: Any) -> datetime.time:
    return datetime.time(*parts[:-1], fold=parts[-1])


def _zone(value: ZoneInfo) -> tuple[str]:
    if value.key is None:
        raise UnfitValueError("a time zone without a name")
    return (value.key,)


# ---- NumPy ----


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Returns a name by which `numpy.dtype` makes the type again, also of two integers of the same size."""
    return dtype.char if dtype.kind in "biufc" and dtype.isnative else dtype.str


def _array(value: np.ndarray[Any, Any]) -> Sequence[Any]:
    dtype = value.dtype
    if dtype.hasobject:
        if dtype.kind != "O":
            raise UnfitValueError(f"an array of type {dtype}")
        return ["O", list(value.shape), *value.reshape(-1).tolist()]
    name = dtype_name(dtype) if dtype.names is None and dtype.kind != "V" else np.lib.format.dtype_to_descr(dtype)
    return [name, list(value.shape), value.tobytes()]


def _read_array(name: Any, shape: Sequence[int], *items: Any) -> np.ndarray[Any, Any]:
    if name == "O":
        found = np.empty(len(items), object)
        found[:] = items
        return found.reshape(shape)
    return np.ndarray(tuple(shape), np.lib.format.descr_to_dtype(name), bytearray(items[0]))


def _scalar(value: np.generic) -> Sequence[Any]:
    if isinstance(value, (np.str_, np.bytes_)):  # in an array they lose zeros at their end
        return (value.dtype.kind, value.item())
    return (dtype_name(value.dtype), value.tobytes())


def _read_scalar(name: str, content: Any) -> Any:
    if name in ("U", "S"):
        return np.dtype(name).type(content)
    return np.frombuffer(content, name)[0]


@cache
def _named_class(name: str, *fields: str) -> Any:
    """Returns a class of named tuples, made anew; a name that is no valid attribute becomes "_" and its place."""
    return namedtuple(name if name.isidentifier() else "Row", fields, rename=True)


_NUMBER_TYPES = {"f": "<f8", "i": "<i4"}


def _read_numbers(kind: str, content: Any) -> list[Any]:
    found: list[Any] = np.frombuffer(content, _NUMBER_TYPES[kind]).tolist()
    return found


_INTEGER, _DICT, _NUMBERS = (
    MarkedType(code, tuple, reader)
    for code, reader in (
        (0, _of(lambda content: int.from_bytes(content, "little", signed=True))),
        (1, _with(lambda items: dict(_pairs(items)))),
        (21, _of(_read_numbers)),
    )
)
_INTEGER_MARK, _DICT_MARK, _NUMBERS_MARK = (msgpack.ExtType(marked.code, b"") for marked in (_INTEGER, _DICT, _NUMBERS))
_NAMED = MarkedType(
    2,
    tuple,
    lambda head: _named_class(*head)._make,
    head=lambda value: (type(value).__name__, *value._fields),
    in_columns=True,
)
_SCALAR = MarkedType(3, _scalar, _of(_read_scalar))
_TYPES: dict[type, MarkedType] = {
    tuple: MarkedType(4, tuple, _with(tuple)),
    set: MarkedType(5, tuple, _with(set)),
    frozenset: MarkedType(6, tuple, _with(frozenset)),
    bytearray: MarkedType(7, lambda value: (bytes(value),), _of(bytearray)),
    complex: MarkedType(8, attrgetter("real", "imag"), _of(complex)),
    OrderedDict: MarkedType(9, _items, _with(lambda items: OrderedDict(_pairs(items)))),
    Decimal: MarkedType(10, lambda value: (str(value),), _of(Decimal)),
    Fraction: MarkedType(11, attrgetter("numerator", "denominator"), _of(Fraction)),
    uuid.UUID: MarkedType(12, lambda value: (value.bytes,), _of(lambda content: uuid.UUID(bytes=content))),
    datetime.date: MarkedType(13, lambda value: (value.toordinal(),), _of(datetime.date.fromordinal)),
    datetime.datetime: MarkedType(14, _DATE_TIME, _of(_date_time)),
    datetime.time: MarkedType(15, _TIME, _of(_time)),
    datetime.timedelta: MarkedType(16, attrgetter("days", "seconds", "microseconds"), _of(datetime.timedelta)),
    datetime.timezone: MarkedType(17, lambda value: value.__getinitargs__(), _of(datetime.timezone)),
    ZoneInfo: MarkedType(18, _zone, _of(ZoneInfo)),
    array.array: MarkedType(19, lambda value: (value.typecode, value.tobytes()), _of(array.array)),
    np.ndarray: MarkedType(20, _array, _of(_read_array)),
}
_CODES = {marked.code: marked for marked in (_INTEGER, _DICT, _NUMBERS, _NAMED, _SCALAR, *_TYPES.values())}
_ADDED: dict[str, MarkedType] = {}
"""Types of other packages, by `module.Class`."""
