"""Which tensors a checkpoint has of some objects, and by what names: TensorFlow's own object graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.checkpoint import graph_view, save_util

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""The tensor by which TensorFlow finds the objects of a checkpoint again."""


class CheckpointEntry(NamedTuple):
    """A tensor of a checkpoint.

    Attributes:
        key: By which the checkpoint knows it.
        name: By which its owner does.
        owner: The object whose state it is part of.
        saver: Saves and restores the owner; mostly itself.
        value: The tensor, or what reads it.
    """

    key: str
    name: str
    owner: Any
    saver: Any
    value: Any

    @property
    def variable(self) -> Any | None:
        """The resource variable that this is, None if it is anything else."""
        variable = self.owner if isinstance(self.owner, tf.Variable) else getattr(self.owner, "value", None)
        return variable if isinstance(variable, tf.Variable) else None

    def read(self) -> Any:
        """Returns the tensor."""
        value = getattr(self.value, "tensor", self.value)  # TensorFlow's older way
        return value() if callable(value) else value


def entries_of(root: Any) -> tuple[list[CheckpointEntry], bytes]:
    """Returns what a checkpoint of a trackable has, and its object graph; reads nothing.

    Raises:
        NotImplementedError: an object has a saver of its own.
    """
    tensors, _, savers, graph = save_util.serialize_graph_view(graph_view.ObjectGraphView(root))
    if savers:
        raise NotImplementedError(f"{', '.join(savers)}: savers of one's own")
    names = {attribute.checkpoint_key: attribute.name for node in graph.nodes for attribute in node.attributes}
    entries = [
        CheckpointEntry(key, names[key], getattr(saver, "obj", saver), saver, value)
        for saver, found in tensors.items()
        for key, value in found.items()
    ]
    return entries, graph.SerializeToString()


def stored_keys(entries: Sequence[CheckpointEntry], root: Any, prefix: Path) -> dict[str, str]:
    """Returns by what key a checkpoint has each entry; who wrote that may have given it other keys.

    Args:
        prefix: Of the checkpoint, of which only the index and the object graph are read.

    Returns:
        By the key of the entry. What the checkpoint lacks is left out.
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
