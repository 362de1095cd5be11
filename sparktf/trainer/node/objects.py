"""The tensors of trackable objects in a checkpoint, and their keys, by TensorFlow's object graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.checkpoint import graph_view, save_util

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""The tensor that holds the object graph."""


class CheckpointEntry(NamedTuple):
    """A tensor of a checkpoint."""

    key: str  # Its key in the checkpoint
    name: str  # Its name in its owner
    owner: Any  # The object whose state it belongs to
    saver: Any  # Saves and restores the owner; usually the owner itself
    value: Any  # The tensor, or a function that reads it

    @property
    def variable(self) -> Any | None:
        """The resource variable, None for any other state."""
        variable = self.owner if isinstance(self.owner, tf.Variable) else getattr(self.owner, "value", None)
        return variable if isinstance(variable, tf.Variable) else None

    def read(self) -> Any:
        value = getattr(self.value, "tensor", self.value)  # a SaveSpec, TensorFlow's older form
        return value() if callable(value) else value


def entries_of(root: Any) -> tuple[list[CheckpointEntry], bytes]:
    """Returns the entries of a checkpoint of a trackable, and its object graph; reads no value.

    Raises:
        NotImplementedError: an object has a custom saver.
    """
    tensors, _, savers, graph = save_util.serialize_graph_view(graph_view.ObjectGraphView(root))
    if savers:
        raise NotImplementedError(f"{', '.join(savers)}: custom savers are not supported")
    names = {attribute.checkpoint_key: attribute.name for node in graph.nodes for attribute in node.attributes}
    entries = [
        CheckpointEntry(key, names[key], getattr(saver, "obj", saver), saver, value)
        for saver, found in tensors.items()
        for key, value in found.items()
    ]
    return entries, graph.SerializeToString()


def stored_keys(entries: Sequence[CheckpointEntry], root: Any, prefix: Path) -> dict[str, str]:
    """Returns the key of each entry in a stored checkpoint, whose writer may have used other keys.

    Only the index and the object graph at `prefix` are read. Entries that the checkpoint lacks are left out.
    """
    view = tf.train.CheckpointView(str(prefix))
    nodes = view._object_graph_proto.nodes
    keys = {
        (id(found), attribute.name): attribute.checkpoint_key
        for number, found in view.match(root).items()
        for attribute in nodes[number].attributes
    }
    wanted = ((entry.key, keys.get((id(entry.owner), entry.name))) for entry in entries)
    return {key: stored for key, stored in wanted if stored is not None}
