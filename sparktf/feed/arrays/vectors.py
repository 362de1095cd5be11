"""Converts Spark ML's dense and sparse vectors into lists of numbers.

A column of `pyspark.ml.linalg.VectorUDT` reaches Arrow, and Parquet files, as a struct: `type` (0 sparse, 1 dense), and
`size` and `indices` of a sparse one, and `values` (pyspark.ml.linalg.VectorUDT.sqlType).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sparktf.errors import BadValueError
from sparktf.feature import Feature
from sparktf.feed.arrays.aside import Reason
from sparktf.feed.arrays.lists import Refuse, wrong_length
from sparktf.sequence import Integers

_FIELDS = ("type", "size", "indices", "values")
_DENSE = 1

Flags = npt.NDArray[np.bool_]

MALFORMED = "a sparse vector has an index beyond its size, or different numbers of indices and values"


def is_vector(kind: pa.DataType) -> bool:
    """Whether a column of this Arrow type holds a vector in each row."""
    if not pt.is_struct(kind) or tuple(field.name for field in kind) != _FIELDS:
        return False
    sort, size, indices, values = (field.type for field in kind)
    are_numbers = pt.is_int8(sort) and pt.is_int32(size)
    are_lists = pt.is_list(indices) and pt.is_list(values)
    return bool(are_numbers and are_lists and pt.is_int32(indices.value_type) and pt.is_float64(values.value_type))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of the result of `plain_column`."""
    return pa.list_(pa.float64()) if is_vector(kind) else kind


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns vectors as lists, and any other column unchanged.

    Raises:
        BadValueError: a vector is malformed.
    """
    if not is_vector(column.type):
        return column
    return pa.chunked_array([as_lists(chunk) for chunk in column.chunks], pa.large_list(pa.float64()))


def plain_array(array: pa.Array) -> pa.Array:
    """Returns vectors as lists, and any other array unchanged; raises what `plain_column` does."""
    return as_lists(array) if is_vector(array.type) else array


def as_lists(
    vectors: pa.StructArray, feature: Feature | None = None, refuse: Refuse | None = None
) -> pa.LargeListArray:
    """Returns vectors as lists of numbers; nulls stay.

    Args:
        feature: Sparse vectors that are too long for it are refused before memory is allocated for them.
        refuse: Called for rows whose vector is malformed or too long; if it returns, the list has zeros. Default:
            raises for the first one.

    Raises:
        BadValueError: a sparse vector has different numbers of indices and values, or an index beyond its size.
    """
    refuse = refuse or _raise
    is_fixed = feature is not None and bool(feature.shape) and not feature.truncate
    dtype = np.float32 if feature is not None and feature.numpy_dtype == np.float32 else np.float64
    sort, size, indices, values = vectors.flatten()  # null where the vector is
    there = vectors.is_valid().to_numpy(zero_copy_only=False)
    dense = pc.fill_null(sort, _DENSE).to_numpy() == _DENSE
    counts = pc.fill_null(pc.list_value_length(values), 0).to_numpy().astype(np.int64)
    if dense.all():
        offsets = _offsets(counts)
        numbers = values.flatten().to_numpy(zero_copy_only=False)
        return _lists(offsets, _as_type(numbers, dtype), there)
    sparse = ~dense & there
    sizes = pc.fill_null(size, 0).to_numpy().astype(np.int64)
    lengths = np.where(there, np.where(dense, counts, sizes), 0)
    wrong = sparse & _malformed(indices, counts, sizes)
    if wrong.any():
        refuse(np.flatnonzero(wrong), lambda _: MALFORMED)
    if feature is not None and is_fixed:
        long = np.flatnonzero(sparse & ~wrong & (sizes > feature.places))
        if len(long):
            refuse(long, lambda i: wrong_length(int(sizes[long[i]]), feature))
            wrong[long] = True
    lengths[wrong] = feature.places if feature is not None and is_fixed else 0
    offsets = _offsets(lengths)
    found = np.zeros(offsets[-1], dtype)
    for chosen, own in ((dense & there, None), (sparse & ~wrong, indices)):
        rows = np.repeat(np.flatnonzero(chosen), counts[chosen])
        mask = pa.array(chosen)
        numbers = values.filter(mask).flatten().to_numpy(zero_copy_only=False)
        if own is None:
            at = np.arange(len(rows)) - np.repeat(_offsets(counts[chosen])[:-1], counts[chosen])
        else:
            at = own.filter(mask).flatten().to_numpy(zero_copy_only=False)
        found[offsets[rows] + at] = _as_type(numbers, dtype)
    return _lists(offsets, found, there)


def _malformed(indices: pa.Array, counts: Integers, sizes: Integers) -> Flags:
    """Returns which sparse vectors are malformed: bool [rows]."""
    told = pc.fill_null(pc.list_value_length(indices), 0).to_numpy().astype(np.int64)
    places = indices.flatten().to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(told)), told)
    wrong: Flags = (told != counts) | (sizes < 0)
    wrong[rows[(places < 0) | (places >= sizes[rows])]] = True
    return wrong


def _raise(rows: Integers, reason: Reason) -> None:
    del rows
    raise BadValueError(reason(0))


def _offsets(lengths: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _as_type(numbers: npt.NDArray[np.float64], dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
    # A double beyond float32 becomes infinite, which later checks find if it matters.
    with np.errstate(over="ignore"):
        return numbers.astype(dtype, copy=False)


def _lists(offsets: Integers, numbers: npt.NDArray[np.floating], there: Flags) -> pa.LargeListArray:
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(numbers), mask=pa.array(~there))
