"""Decimals -> floats, each the nearest one, as Spark's and Python's casts round; Arrow's own is often one digit off.

A decimal is a whole number u over a power of ten. Where both are floats, one division rounds right. Elsewhere u is held
in two floats, whose sum is u but for some 100 bits, and so is the quotient. The few that lie too close to the middle
between two floats to tell are written out and read again: that rounds right too, in five to twenty times the time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]
_Pair = tuple[_Floats, _Floats]

_BLOCK = 8192
"""Values at a time: what lies between the steps stays in the second-level cache."""
_EXACT = 1 << 53
"""Whole numbers up to here are floats."""
_EXACT_SCALE = 22
"""Powers of ten up to here are floats."""
_HALF = np.int64(0xFFFFFFFF)
_UPPER = 2.0**32
_SPLITTER = float((1 << 27) + 1)
_DOUBT = 2.0**-40
"""How much the small part of a quotient may be off, at the most, compared with itself where it matters."""

# Of a float64: the bits that float32 has no room for, and their value in the middle between two floats of that type.
_BEYOND_FLOAT32 = (1 << 29) - 1
_MIDDLE = 1 << 28
_SMALLEST = float(np.finfo(np.float32).smallest_normal)
"""Below, float32 has fewer bits, and its middles lie elsewhere; only decimals of the largest scale go there."""
_SMALLEST_SCALE = 37


def decimal_floats(array: pa.Array, dtype: np.dtype[np.generic]) -> _Floats:
    """Returns decimals without nulls as float64 that become the right values of a dtype when they are cast to it.

    Args:
        dtype: float64 or float32. Twice rounded is not always rounded right: for float32, those that the first
            rounding puts into the middle between two are read again.
    """
    if pt.is_decimal256(array.type):
        return _read_again(array, dtype)
    if not pt.is_decimal128(array.type):
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    scale = array.type.scale
    words = np.frombuffer(array.buffers()[1] or b"", np.int64)[2 * array.offset :][: 2 * len(array)].reshape(-1, 2)
    floats = np.empty(len(words))
    for start in range(0, len(words), _BLOCK):
        low, high = words[start : start + _BLOCK].T
        out = floats[start : start + _BLOCK]
        if 0 <= scale <= _EXACT_SCALE and np.array_equal(high, low >> 63) and _is_exact(low):
            np.divide(low, float(10**scale), out=out)
            doubt = np.zeros(len(out), np.bool_)
        else:
            doubt = _wide(low, high, scale, out)
        if dtype == np.float32:
            doubt |= _is_middle(out, scale)
        if doubt.any():
            out[doubt] = _read_again(array.slice(start, len(out)).filter(pa.array(doubt)), dtype)
    return floats


def _read_again(array: pa.Array, dtype: np.dtype[np.generic]) -> _Floats:
    """Returns decimals as the nearest values of a dtype, in float64: what reads numbers rounds right."""
    read = array.cast(pa.large_string()).cast(pa.from_numpy_dtype(dtype))
    return np.asarray(read.to_numpy(zero_copy_only=False), np.float64)


def _is_middle(floats: _Floats, scale: int) -> npt.NDArray[np.bool_]:
    """Returns which lie in the middle between two of float32, or may."""
    middle: npt.NDArray[np.bool_] = (floats.view(np.int64) & _BEYOND_FLOAT32) == _MIDDLE
    if scale > _SMALLEST_SCALE:
        middle |= np.abs(floats) < _SMALLEST
    return middle


def _is_exact(whole: _Ints) -> bool:
    return bool(whole.max() <= _EXACT and whole.min() >= -_EXACT)


def _wide(low: _Ints, high: _Ints, scale: int, out: _Floats) -> npt.NDArray[np.bool_]:
    """Divides whole numbers of 128 bits by a power of ten.

    Args:
        low: The lower 64 bits.
        out: Gets the quotients.

    Returns:
        bool [n], which of them may be one digit off.
    """
    whole = _whole(low, high)
    divisor = 10**scale if scale >= 0 else 1
    first = float(divisor)
    second = float(divisor - int(first))
    if scale < 0:
        whole = _times(whole, 10**-scale)
    quotient = whole[0] / first
    product, error = _product(quotient, first)
    rest = (((whole[0] - product) - error) - quotient * second + whole[1]) / first
    np.add(quotient, rest, out=out)
    small = rest - (out - quotient)
    doubt: npt.NDArray[np.bool_] = (out + small * (1 + _DOUBT)) != (out + small * (1 - _DOUBT))
    return doubt


def _whole(low: _Ints, high: _Ints) -> _Pair:
    """Returns whole numbers of 128 bits as two floats each, the second one less than a digit of the first."""
    if np.array_equal(high, low >> 63):
        return _sum(*_halves(low >> 32, low))
    lower = _sum(*_halves((low >> 32) & _HALF, low))
    upper = _sum(*_halves(high >> 32, high))
    upper = upper[0] * 2.0**64, upper[1] * 2.0**64
    first, error = _sum(upper[0], lower[0])
    second, last = _sum(upper[1], lower[1])
    first, error = _sum(first, error + second)
    return _sum(first, error + last)


def _halves(upper: _Ints, whole: _Ints) -> _Pair:
    """Returns the upper 32 bits of words, as they count, and the lower ones."""
    return upper.astype(np.float64) * _UPPER, (whole & _HALF).astype(np.float64)


def _times(whole: _Pair, factor: int) -> _Pair:
    """Returns numbers times a power of ten: decimals of a negative scale, which Spark does not write."""
    product, error = _product(whole[0], float(factor))
    return _sum(product, error + whole[1] * float(factor) + whole[0] * float(factor - int(float(factor))))


def _sum(a: _Floats, b: _Floats) -> _Pair:
    """Returns a sum as it is rounded, and what that lacks."""
    total = a + b
    taken = total - a
    return total, (a - (total - taken)) + (b - taken)


def _product(a: _Floats, b: float) -> _Pair:
    """Returns a product as it is rounded, and what that lacks."""
    product = a * b
    wide = _SPLITTER * a
    a_high = wide - (wide - a)
    a_low = a - a_high
    b_high = _SPLITTER * b - (_SPLITTER * b - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
