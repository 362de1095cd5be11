"""Sharded checkpoints: each parameter server writes and reads its own variables, on its own disk.

The result is one ordinary TensorFlow checkpoint, an index and numbered data files. Servers upload their data files; the
coordinator adds a data file with its own state, and the index merged from all. No value of a server's variable passes
through the coordinator.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from sparktf.errors import StorageError
from sparktf.storage.base import Storage
from sparktf.trainer.node.checkpoint import INDEX, PREFIX, Contents, download, fetch_index, undamaged
from sparktf.trainer.node.objects import CheckpointEntry, entries_of, stored_keys
from sparktf.trainer.parameter_server.checkpoint.parts import OwnedVariable, parts_of
from sparktf.trainer.parameter_server.checkpoint.servers import Servers, server_of
from sparktf.trainer.parameter_server.checkpoint.shard_orders import Drop, Fetch, Upload
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


class ShardReader:
    """Reads checkpoints into variables that servers hold."""

    def __init__(
        self, servers: Servers, objects: Any, held: Sequence[CheckpointEntry], own: Sequence[CheckpointEntry]
    ) -> None:
        """Reads nothing yet.

        Args:
            objects: The root trackable.
            held: Variables on servers.
            own: All other state.
        """
        self._servers = servers
        self._objects = objects
        self._held = held
        self._own = own

    def restore(self, storage: Storage, source: Restore, work: Path) -> None:
        """Lets each server fetch and read its variables; see `Checkpoint.restore`."""
        folder = work / "restore"
        try:
            with undamaged(source.path):
                contents = fetch_index(storage, source.path, source.files, folder)
                keys = self._keys_in(folder / PREFIX)
                if contents is not None:
                    download(storage, source.path, contents.files_with(keys[entry.key] for entry in self._own), folder)
                self._restore_own(folder / PREFIX, keys)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self._restore_held(source, contents, keys)

    def _keys_in(self, prefix: Path) -> Mapping[str, str]:
        """Returns the checkpoint's key of each entry.

        Raises:
            AssertionError: an entry is missing.
            ValueError: a variable has another shape there.
        """
        keys = stored_keys([*self._held, *self._own], self._objects, prefix)
        if lacking := [entry.key for entry in [*self._held, *self._own] if entry.key not in keys]:
            raise AssertionError(f"the checkpoint lacks {', '.join(lacking)}")
        shapes = tf.train.load_checkpoint(str(prefix)).get_variable_to_shape_map()
        for entry in self._held:
            shape, found = list(_variable(entry).shape), shapes[keys[entry.key]]
            if shape != found:
                raise ValueError(f"{entry.key} has shape {shape} in the model and {found} in the checkpoint")
        return keys

    def _restore_own(self, prefix: Path, keys: Mapping[str, str]) -> None:
        reader = tf.train.load_checkpoint(str(prefix))
        by_owner: dict[int, list[CheckpointEntry]] = defaultdict(list)
        for entry in self._own:
            by_owner[id(entry.owner)].append(entry)
        for entries in by_owner.values():
            tensors = {entry.name: tf.constant(reader.get_tensor(keys[entry.key])) for entry in entries}
            entries[0].saver._restore_from_tensors(tensors)

    def _restore_held(self, source: Restore, contents: Contents | None, keys: Mapping[str, str]) -> None:
        by_server: dict[int, list[CheckpointEntry]] = defaultdict(list)
        for entry in self._held:
            by_server[server_of(_variable(entry)) or 0].append(entry)
        orders = []
        for server in range(self._servers.count):
            stored = [keys[entry.key] for entry in by_server[server]]
            files = source.files if contents is None else (INDEX, *sorted(contents.files_with(stored)))
            orders.append(Fetch(path=source.path, files=files))
        folders = [answer.folder for answer in self._servers.ask(orders)]
        if said := next((f"ps {server}: {error}" for server, error in enumerate(self._servers.wait()) if error), ""):
            raise StorageError(said)

        def steps(server: int, folder: Any) -> list[Callable[[], Any]]:
            prefix = tf.strings.join([folder, f"/{PREFIX}"])
            return [partial(_restore, _variable(entry), keys[entry.key], prefix) for entry in by_server[server]]

        self._servers.function(steps)(folders)
        self._servers.ask_all(Drop())


def _variable(entry: CheckpointEntry) -> Any:
    return entry.variable


def _restore(variable: Any, key: str, prefix: Any) -> Any:
    """Reads a variable on its server, which never holds it twice: the old value is freed first."""
    handle, dtype = variable.handle, variable.dtype
    # A shape that is unknown when the graph is made: the handle's static shape would refuse an empty value.
    nothing = tf.zeros(tf.raw_ops.PlaceholderWithDefault(input=[0], shape=[None]), dtype)
    emptied = tf.raw_ops.AssignVariableOp(resource=handle, value=nothing)
    with tf.control_dependencies([emptied]):
        (value,) = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=[key], shape_and_slices=[""], dtypes=[dtype])
        return tf.raw_ops.AssignVariableOp(resource=handle, value=value)
