"""Sharded checkpoints: each parameter server writes and reads its own variables, on its own disk.

The result is one ordinary TensorFlow checkpoint, an index and numbered data files. Servers upload their data files; the
coordinator adds a data file with its own state, and the index merged from all. No value of a server's variable passes
through the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from sparktf.storage.base import Storage
from sparktf.trainer.node.objects import CheckpointEntry, entries_of
from sparktf.trainer.parameter_server.checkpoint.parts import OwnedVariable, parts_of
from sparktf.trainer.parameter_server.checkpoint.servers import Servers, server_of
from sparktf.trainer.parameter_server.checkpoint.shard_orders import Upload
from sparktf.trainer.parameter_server.checkpoint.shard_reading import ShardReader
from sparktf.trainer.parameter_server.checkpoint.shard_writing import ShardWriter
from sparktf.wire.restore import Restore
from sparktf.wire.uploads import Uploaded


class ShardedCheckpoint:
    """See `Checkpoint`; on the coordinator."""

    def __init__(self, servers: Servers, weights: Iterable[Any], **trackables: Any) -> None:
        """Takes the objects to save, by name; all of their variables exist.

        Args:
            weights: Variables that can be read without the others. Scalars are always among them: no model is read
                without some of the optimizer's.
        """
        objects = tf.train.Checkpoint(**trackables)
        entries, graph = entries_of(objects)
        held = {entry.key: entry for entry in entries if _server(entry) is not None}
        own = [entry for entry in entries if entry.key not in held]
        alone = {id(variable) for variable in weights}
        parts = parts_of([_described(entry, is_weight=id(entry.variable) in alone) for entry in held.values()])
        variables = {key: entry.variable for key, entry in held.items()}
        self._servers = servers
        self._writer = ShardWriter(servers, variables, parts, own, graph)
        self._reader = ShardReader(servers, objects, list(held.values()), own)

    def write(self, folder: Path) -> tuple[str, ...]:
        return self._writer.write(folder)

    def upload(self, message: Uploaded) -> None:
        self._servers.ask_all(Upload(step=message.step, epoch=message.epoch, keras=message.keras))

    def settle(self) -> str:
        said = (f"ps {server}: {error}" for server, error in enumerate(self._servers.wait()) if error)
        return next(said, "")

    def restore(self, storage: Storage, source: Restore, work: Path) -> None:
        """See `Checkpoint`. Each server fetches the files with its variables."""
        self._reader.restore(storage, source, work)


def _server(entry: CheckpointEntry) -> int | None:
    return None if entry.variable is None else server_of(entry.variable)


def _described(entry: CheckpointEntry, *, is_weight: bool) -> OwnedVariable:
    variable: Any = entry.variable
    return OwnedVariable(
        key=entry.key,
        server=server_of(variable) or 0,
        family="weights" if is_weight or not variable.shape.rank else "slots",
        shape=tuple(variable.shape.as_list()),
        itemsize=variable.dtype.size,
    )
