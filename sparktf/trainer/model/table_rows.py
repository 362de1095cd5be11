"""The parts of a model for a warm start: variables, and tables, whose rows may be in several shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparktf.trainer.model.entries import RowIndices
from sparktf.trainer.model.lookups import tables_of
from sparktf.trainer.model.trackables import tensorflow_variable, value_of
from sparktf.trainer.model.variable_names import VariableNames, each_once


class ModelPart(NamedTuple):
    """A variable, or a table's n shards: row `i` is row `i // n` of shard `i % n`; `layer` is the table's layer."""

    name: str
    variables: tuple[Any, ...]
    shape: tuple[int, ...]
    layer: Any = None


def model_parts(model: Any) -> list[ModelPart]:
    """Returns the weights of a built model, without metrics and random generators."""
    names = VariableNames(model)
    tables = {id(variable): layer for layer in tables_of(model) for variable in layer.weights}
    found: dict[int, ModelPart] = {}
    for variable in model.weights:
        layer = tables.get(id(variable))
        if layer is None:
            found[id(variable)] = ModelPart(names.of_variable(variable), (variable,), tuple(variable.shape))
        elif id(layer) not in found:
            shape = (sum(int(shard.shape[0]) for shard in layer.weights), int(variable.shape[1]))
            found[id(layer)] = ModelPart(names.path_of(layer), tuple(layer.weights), shape, layer)
    distinct = each_once(part.name for part in found.values())
    return [part._replace(name=name) for part, name in zip(found.values(), distinct, strict=True)]


def copy_whole(target: Sequence[Any], source: Sequence[Any]) -> None:
    """Gives variables the values of others of the same shape in all; they may be other numbers of shards."""
    if len(target) == len(source):
        for ours, theirs in zip(target, source, strict=True):
            _assign(ours, value_of(theirs))
        return
    rows = np.arange(sum(int(shard.shape[0]) for shard in target), dtype=np.int64)
    copy_rows(target, source, rows, rows)


def copy_rows(target: Sequence[Any], source: Sequence[Any], to: RowIndices, rows: RowIndices) -> None:
    """Gives some rows of a table the values of rows of another one; the others stay as they are.

    One shard after the other: all of a table twice may be too much.

    Args:
        to: RowIndices of the target, of the row in `rows` each.
    """
    for place, shard in enumerate(target):
        mine = to % len(target) == place
        if not mine.any():
            continue
        value = value_of(shard).copy()
        for theirs, at, wanted in _by_shard(source, rows[mine]):
            value[(to[mine] // len(target))[at]] = value_of(theirs)[wanted]
        _assign(shard, value)


def _by_shard(shards: Sequence[Any], rows: RowIndices) -> Iterator[tuple[Any, Any, RowIndices]]:
    """Yields each shard that has some of the rows, which of them (bool), and their positions in the shard."""
    for place, shard in enumerate(shards):
        at = rows % len(shards) == place
        if at.any():
            yield shard, at, rows[at] // len(shards)


def _assign(variable: Any, value: Any) -> None:
    ours = tensorflow_variable(variable)
    ours.assign(value.astype(ours.dtype.as_numpy_dtype, copy=False))
