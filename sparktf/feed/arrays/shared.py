"""Arrays in memory shared by two processes: in an anonymous file whose descriptor is sent over a socket.

The file holds the arrays, then a directory of them (JSON), then the directory's length in bytes (int64).
"""

from __future__ import annotations

import json
import math
import mmap
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sparktf.feed.arrays.columns import Array, object_array
from sparktf.feed.arrays.memory import ALIGNMENT

_Directory = list[tuple[str, str, tuple[int, ...], int]]
"""Name, dtype ("text" for `bytes` objects), shape, and offset of each array."""

_VERB_NBYTES = 16
_TEXT = "text"
_OFFSETS = np.dtype(np.int64)


def write_shared(arrays: Mapping[str, Array]) -> int:
    """Writes arrays into an anonymous file; returns its descriptor, which the caller closes.

    Raises:
        OSError: there is no room.
    """
    plain: list[tuple[str, str, tuple[int, ...], list[Array]]] = []
    for name, array in arrays.items():
        if array.dtype == object:
            plain.append((name, _TEXT, array.shape, _text_parts(array)))
        else:
            plain.append((name, array.dtype.str, array.shape, [np.ascontiguousarray(array)]))
    directory: _Directory = []
    pieces: list[tuple[int, Array]] = []
    end = 0
    for name, dtype, shape, parts in plain:
        directory.append((name, dtype, shape, end))
        for part in parts:
            pieces.append((end, part))
            end += -(-part.nbytes // ALIGNMENT) * ALIGNMENT
    told = json.dumps(directory).encode()
    for part in (np.frombuffer(told, np.uint8), np.array([len(told)], _OFFSETS)):
        pieces.append((end, part))
        end += part.nbytes
    file = os.memfd_create("sparktf-arrays", os.MFD_CLOEXEC)
    try:
        os.ftruncate(file, end)
        memory = np.frombuffer(mmap.mmap(file, end), np.uint8)
        for start, part in pieces:
            memory[start : start + part.nbytes] = part.reshape(-1).view(np.uint8)
    except BaseException:
        os.close(file)
        raise
    return file


def shared(file: int) -> dict[str, Array]:
    """Returns the arrays of a file as views of its memory, text as `bytes` objects; the file may then be closed."""
    memory = np.frombuffer(mmap.mmap(file, os.fstat(file).st_size), np.uint8)
    found: dict[str, Array] = {}
    for name, dtype, shape, start in _directory(memory):
        if dtype == _TEXT:
            found[name] = _text_at(memory, start, math.prod(shape)).reshape(shape)
        else:
            kind = np.dtype(dtype)
            stop = start + math.prod(shape) * kind.itemsize
            found[name] = memory[start:stop].view(kind).reshape(shape)
    return found


def tell(connection: socket.socket, verb: str, arrays: Mapping[str, Array] | None = None) -> None:
    """Sends a message, perhaps with arrays; raises `OSError`."""
    files = [] if arrays is None else [write_shared(arrays)]
    try:
        socket.send_fds(connection, [verb.encode()], files)
    finally:
        for file in files:
            os.close(file)


def hear(connection: socket.socket) -> tuple[str, dict[str, Array]]:
    """Returns the next message, and its arrays.

    Raises:
        EOFError: the other side is gone.
        OSError: it does not answer.
    """
    try:
        said, files, _, _ = socket.recv_fds(connection, _VERB_NBYTES, 1)
    except ConnectionError:
        said, files = b"", []
    try:
        if not said:
            raise EOFError("the other side is gone")
        return said.decode(), {name: array for file in files for name, array in shared(file).items()}
    finally:
        for file in files:
            os.close(file)


def _directory(memory: Array) -> Sequence[Any]:
    (nbytes,) = np.frombuffer(memory[-_OFFSETS.itemsize :].tobytes(), _OFFSETS)
    found: Sequence[Any] = json.loads(memory[-_OFFSETS.itemsize - nbytes : -_OFFSETS.itemsize].tobytes())
    return found


def _text_parts(array: Array) -> list[Array]:
    """Returns the offsets of the texts with their end, and the bytes of all texts."""
    values = pa.array(array.reshape(-1), pa.large_binary())
    offsets: Array = np.zeros(len(values) + 1, _OFFSETS)
    _, begins, data = values.buffers()
    if len(values):
        offsets = np.frombuffer(begins, _OFFSETS)[: len(values) + 1]
    return [offsets, np.frombuffer(data, np.uint8)[: offsets[-1]] if data is not None else np.empty(0, np.uint8)]


def _text_at(memory: Array, start: int, count: int) -> Array:
    nbytes = (count + 1) * _OFFSETS.itemsize
    begin = start + -(-nbytes // ALIGNMENT) * ALIGNMENT
    offsets = memory[start : start + nbytes]
    data = memory[begin : begin + int(offsets.view(_OFFSETS)[-1])]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return object_array(pa.Array.from_buffers(pa.large_binary(), count, buffers))
