"""Writing of a checkpoint by parameter servers: their data files, and one index merged from theirs."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from sparktf.errors import StorageError
from sparktf.sequence import Interval
from sparktf.told import line_of_error
from sparktf.trainer.node.checkpoint import CONTENTS, PREFIX, Contents
from sparktf.trainer.node.failure import LARGER_DISK, is_full_disk
from sparktf.trainer.node.objects import OBJECT_GRAPH, CheckpointEntry
from sparktf.trainer.parameter_server.checkpoint.parts import Part, slice_spec
from sparktf.trainer.parameter_server.checkpoint.servers import Servers
from sparktf.trainer.parameter_server.checkpoint.shard_orders import Begin, Check, Drop, PartFile, ShardAnswer


class ShardWriter:
    """Writes checkpoints of the same variables."""

    def __init__(
        self,
        servers: Servers,
        variables: Mapping[str, Any],
        parts: Sequence[Part],
        own: Sequence[CheckpointEntry],
        graph: bytes,
    ) -> None:
        """Writes nothing yet.

        Args:
            variables: Variables on servers, by key.
            own: All other state.
            graph: The object graph.
        """
        self._servers = servers
        self._variables = variables
        self._parts = parts
        self._own = own
        self._graph = graph
        self._files = [_data_file(PREFIX, number, len(parts) + 1) for number in range(len(parts) + 1)]
        self._written = servers.function(self._steps)

    def write(self, folder: Path) -> tuple[str, ...]:
        """Lets all servers write their parts; see `Checkpoint.write`."""
        folders = [answer.folder for answer in self._servers.ask_all(Begin())]
        try:
            self._written(folders)
            answers = self._servers.ask([self._check(server) for server in range(self._servers.count)])
        except tf.errors.OpError as error:
            if not is_full_disk(error):
                raise
            self._servers.ask_all(Drop())
            said = line_of_error(error)
            raise StorageError(f"the local disk of a parameter server is full: {said}; {LARGER_DISK}") from error
        except StorageError:
            self._servers.ask_all(Drop())
            raise
        self._write_index(folder, answers)
        contents = {self._files[number]: part.keys for number, part in self._numbered()}
        contents[self._files[0]] = (OBJECT_GRAPH, *(entry.key for entry in self._own))
        (folder / CONTENTS).write_text(Contents(files=contents).model_dump_json())
        return tuple(self._files[1:])

    def _numbered(self, server: int | None = None) -> list[tuple[int, Part]]:
        """Returns the parts of one server, or of all, from 1: data file 0 is the coordinator's."""
        return [(n, part) for n, part in enumerate(self._parts, 1) if server is None or part.server == server]

    def _check(self, server: int) -> Check:
        files = (
            PartFile(local=str(number), name=self._files[number], nbytes=part.nbytes)
            for number, part in self._numbered(server)
        )
        return Check(parts=tuple(files))

    def _steps(self, server: int, folder: Any) -> list[Callable[[], Any]]:
        """Returns the operations that write a server's parts into a folder."""
        return [_writing(self._tensors(part), part, folder, number) for number, part in self._numbered(server)]

    def _tensors(self, part: Part) -> Callable[[], list[Any]]:
        variables = [self._variables[key] for key in part.keys]
        rows = part.rows
        return lambda: [_read(variable) if rows is None else _read_rows(variable, rows) for variable in variables]

    def _write_index(self, folder: Path, answers: Sequence[ShardAnswer]) -> None:
        """Writes the index of the whole checkpoint, and the coordinator's data file.

        TensorFlow merges the indexes and renames the data files, numbering them in the order given. A placeholder with
        its own number stands here for each server's file, to check that order.
        """
        parts = folder / "parts"
        parts.mkdir(parents=True)
        self._write_own(parts / "0")
        for server, answer in enumerate(answers):
            for (number, _), index in zip(self._numbered(server), answer.indexes, strict=True):
                (parts / f"{number}.index").write_bytes(base64.b64decode(index))
                (parts / _data_file(str(number), 0, 1)).write_text(str(number))
        tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=[str(parts / str(number)) for number in range(len(self._files))],
            destination_prefix=str(folder / PREFIX),
            delete_old_dirs=False,
        )
        for number, name in enumerate(self._files[1:], 1):
            if (folder / name).read_text() != str(number):
                raise NotImplementedError(f"TensorFlow {tf.__version__} numbers data files in an unknown order")
            (folder / name).unlink()
        shutil.rmtree(parts)

    def _write_own(self, prefix: Path) -> None:
        names = [OBJECT_GRAPH, *(entry.key for entry in self._own)]
        tensors = [tf.constant(self._graph), *(entry.read() for entry in self._own)]
        slices = [""] * len(names)
        tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, shape_and_slices=slices, tensors=tensors)


def _writing(tensors: Callable[[], list[Any]], part: Part, folder: Any, number: int) -> Callable[[], Any]:
    """Returns an operation that writes a part into a folder, as a separate checkpoint."""

    def write() -> Any:
        values = tensors()
        slices = [slice_spec(part.shape, part.rows)] if part.rows else [""] * len(values)
        prefix = tf.strings.join([folder, f"/{number}"])
        return tf.raw_ops.SaveV2(prefix=prefix, tensor_names=part.keys, shape_and_slices=slices, tensors=values)

    return write


def _read(variable: Any) -> Any:
    return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)


def _read_rows(variable: Any, rows: Interval) -> Any:
    """Returns rows of a variable without copying all of it."""
    numbers = tf.range(*rows, dtype=tf.int32 if rows[1] <= tf.int32.max else tf.int64)
    return tf.raw_ops.ResourceGather(resource=variable.handle, indices=numbers, dtype=variable.dtype)


def _data_file(prefix: str, number: int, count: int) -> str:
    """Returns TensorFlow's name of a checkpoint's data file."""
    return f"{prefix}.data-{number:05d}-of-{count:05d}"
