"""Converts decimals to the nearest floats, as Spark and Python do; Arrow's own cast is often one digit off.

A decimal is an integer u over a power of ten. If both are exact floats, one division is correctly rounded. Otherwise u
is held in two floats (double-double arithmetic, some 100 bits), and so is the quotient. The few values too close to the
middle between two floats are printed and parsed, which is correctly rounded and takes five to twenty times as long.
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
"""Values at a time: intermediate results stay in the L2 cache."""
_EXACT = 1 << 53
"""Integers up to this are exact floats."""
_EXACT_SCALE = 22
"""Powers of ten up to this exponent are exact floats."""
_HALF = np.int64(0xFFFFFFFF)  # The lower 32 bits of a word
_UPPER = 2.0**32
_SPLITTER = float((1 << 27) + 1)  # Splits a float64 into halves of 26 bits, whose products are exact
_DOUBT = 2.0**-40
"""Upper bound of the relative error of a quotient's small part."""

# Of a float64: the bits that float32 has no room for, and their value in the middle between two floats of that type.
_BEYOND_FLOAT32 = (1 << 29) - 1
_MIDDLE = 1 << 28
_SMALLEST = float(np.finfo(np.float32).smallest_normal)
"""Below it float32 is subnormal, with other middles; only decimals of the largest scale reach that."""
_SMALLEST_SCALE = 37


def decimal_floats(array: pa.Array, dtype: np.dtype[np.generic]) -> _Floats:
    """Returns decimals without nulls as float64 that are correctly rounded when cast to a dtype.

    Args:
        dtype: float64 or float32. Double rounding may be wrong: for float32, values that the first rounding puts into
            the middle between two are parsed again.
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
    """Returns the nearest values of a dtype, in float64, by printing and parsing."""
    read = array.cast(pa.large_string()).cast(pa.from_numpy_dtype(dtype))
    return np.asarray(read.to_numpy(zero_copy_only=False), np.float64)


def _is_middle(floats: _Floats, scale: int) -> npt.NDArray[np.bool_]:
    """Returns which values are, or may be, in the middle between two of float32."""
    middle: npt.NDArray[np.bool_] = (floats.view(np.int64) & _BEYOND_FLOAT32) == _MIDDLE
    if scale > _SMALLEST_SCALE:
        middle |= np.abs(floats) < _SMALLEST
    return middle


def _is_exact(whole: _Ints) -> bool:
    return bool(whole.max() <= _EXACT and whole.min() >= -_EXACT)


def _wide(low: _Ints, high: _Ints, scale: int, out: _Floats) -> npt.NDArray[np.bool_]:
    """Divides 128-bit integers by a power of ten.

    Args:
        low: The lower 64 bits.
        out: Gets the quotients.

    Returns:
        bool [n], which quotients may be one digit off.
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
    """Returns 128-bit integers as two floats each, the second less than a unit in the last place of the first."""
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
    """Returns the upper 32 bits of words, scaled, and the lower ones."""
    return upper.astype(np.float64) * _UPPER, (whole & _HALF).astype(np.float64)


def _times(whole: _Pair, factor: int) -> _Pair:
    """Returns numbers times a power of ten: decimals of a negative scale, which Spark does not write."""
    product, error = _product(whole[0], float(factor))
    return _sum(product, error + whole[1] * float(factor) + whole[0] * float(factor - int(float(factor))))


def _sum(a: _Floats, b: _Floats) -> _Pair:
    """Returns a rounded sum and its error (Knuth's two-sum)."""
    total = a + b
    taken = total - a
    return total, (a - (total - taken)) + (b - taken)


def _product(a: _Floats, b: float) -> _Pair:
    """Returns a rounded product and its error (Dekker's product)."""
    product = a * b
    wide = _SPLITTER * a
    a_high = wide - (wide - a)
    a_low = a - a_high
    b_high = _SPLITTER * b - (_SPLITTER * b - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
