"""Spark ML's vectors, dense and sparse, which are lists of numbers to whoever reads them.

A column of `pyspark.ml.linalg.VectorUDT` reaches Arrow, and Parquet files, as a struct: `type` (0 sparse, 1 dense), and
`size` and `indices` of a sparse one, and `values` (pyspark.ml.linalg.VectorUDT.sqlType).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sparktf.errors import BadValueError

_FIELDS = ("type", "size", "indices", "values")
_DENSE = 1


def is_vector(kind: pa.DataType) -> bool:
    """Whether a column of this Arrow type holds a vector in each row."""
    if not pt.is_struct(kind) or tuple(field.name for field in kind) != _FIELDS:
        return False
    sort, size, indices, values = (field.type for field in kind)
    are_numbers = pt.is_int8(sort) and pt.is_int32(size)
    are_lists = pt.is_list(indices) and pt.is_list(values)
    return bool(are_numbers and are_lists and pt.is_int32(indices.value_type) and pt.is_float64(values.value_type))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of what `plain_column` makes of a column."""
    return pa.list_(pa.float64()) if is_vector(kind) else kind


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns vectors as lists, and any other column as it is.

    Raises:
        BadValueError: a vector is none that Spark makes.
    """
    if not is_vector(column.type):
        return column
    return pa.chunked_array([as_lists(chunk) for chunk in column.chunks], pa.large_list(pa.float64()))


def as_lists(vectors: pa.StructArray) -> pa.LargeListArray:
    """Returns the lists of numbers that vectors are; a null is null.

    Raises:
        BadValueError: a sparse one has other indices than values, or one beyond its size.
    """
    sort, size, indices, values = vectors.flatten()  # null where the vector is
    there = vectors.is_valid().to_numpy(zero_copy_only=False)
    dense = pc.fill_null(sort, _DENSE).to_numpy() == _DENSE
    counts = pc.fill_null(pc.list_value_length(values), 0).to_numpy().astype(np.int64)
    sizes = pc.fill_null(size, 0).to_numpy().astype(np.int64)
    lengths = np.where(there, np.where(dense, counts, sizes), 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    numbers = values.flatten().to_numpy(zero_copy_only=False)
    if dense.all():
        found = numbers
    else:
        rows = np.repeat(np.arange(len(counts)), counts)
        at = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)
        sparse = ~dense[rows]
        places = pc.if_else(pa.array(~dense & there), indices, None).flatten().to_numpy(zero_copy_only=False)
        told = pc.fill_null(pc.list_value_length(indices), 0).to_numpy()
        is_odd = (told != counts)[~dense & there].any()
        if is_odd or (places < 0).any() or (places >= sizes[rows[sparse]]).any():
            raise BadValueError("a sparse vector has an index beyond its size, or not as many indices as values")
        at[sparse] = places
        found = np.zeros(offsets[-1])
        found[offsets[rows] + at] = numbers
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(found), mask=pa.array(~there))
