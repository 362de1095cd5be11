"""Finds the vocabularies of a model's tables in a trace of the model, however it is built.

The outputs of every lookup and the inputs of every table are noted. If an input is computed from an output only by
operations that rearrange values, the table has a row for each entry of the lookup's vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import tensorflow as tf

from sparktf.layers.model_tables import is_keras_embedding
from sparktf.layers.sharded import Sharded
from sparktf.trainer.model.entries import Vocabulary, vocabulary
from sparktf.trainer.model.tracing import recording
from sparktf.trainer.model.variable_names import layers_of

_ARRANGING = {
    "Cast": 1,
    "EnsureShape": 1,
    "ExpandDims": 1,
    "GatherNd": 1,
    "GatherV2": 1,
    "Identity": 1,
    "Reshape": 1,
    "Snapshot": 1,
    "Squeeze": 1,
    "StopGradient": 1,
    "StridedSlice": 1,
    "Tile": 1,
    "Transpose": 1,
}
"""Operations whose values all come from their first inputs, with the number of these."""
_JOINING = {"ConcatV2": -1, "Pack": None}
"""The same for all inputs, or all but the last."""
_INPUT = "PlaceholderWithDefault"


class Fed(NamedTuple):
    """The input of a table."""

    lookups: tuple[Any, ...] = ()  # Layers that it comes from
    plainly: bool = True  # It has only outputs of these, unchanged


def tables_of(model: Any) -> list[Any]:
    """Returns the embedding layers, Keras's own and ShardedEmbeddings."""
    return [layer for layer in layers_of(model) if isinstance(layer, Sharded) or is_keras_embedding(layer)]


def lookups_of(model: Any) -> list[Any]:
    """Returns the layers that map entries of a vocabulary to numbers."""
    layers = layers_of(model)
    inner = {id(layer._lookup_layer) for layer in layers if hasattr(layer, "_lookup_layer")}  # of a TextVectorization
    return [layer for layer in layers if hasattr(layer, "get_vocabulary") and id(layer) not in inner]


def vocabulary_of(lookup: Any) -> Vocabulary | None:
    """Returns the vocabulary of a lookup's numbers; None if its output is of another kind."""
    inner = getattr(lookup, "_lookup_layer", lookup)
    if getattr(lookup, "output_mode", getattr(lookup, "_output_mode", "int")) != "int":
        return None
    entries = lookup.get_vocabulary(include_special_tokens=False)
    unknown = int(inner.num_oov_indices)
    masked = inner.vocabulary_size() - len(entries) - unknown
    return vocabulary(entries, masked=bool(masked), unknown=unknown)


def fed_tables(model: Any, x: Callable[[], Any]) -> dict[int, Fed]:
    """Returns the inputs of each used table, by its id; `x` returns the model's inputs.

    Raises:
        Exception: the model's code may raise anything.
    """
    given: dict[Any, Any] = {}
    asked: dict[int, list[Any]] = {}

    def give(layer: Any, arguments: Any, values: Any) -> None:
        del arguments
        given[_values(values).ref()] = layer

    def ask(layer: Any, arguments: Any, values: Any) -> None:
        del values
        asked.setdefault(id(layer), []).append(_values(arguments[0]))

    with recording(), noting(lookups_of(model), give), noting(tables_of(model), ask):
        model(tf.nest.map_structure(_as_input, x(), expand_composites=True), training=False)
    return {table: _fed(tensors, given) for table, tensors in asked.items()}


def _as_input(tensor: Any) -> Any:
    """Returns a copy of a tensor at which a walk back ends."""
    return tf.raw_ops.PlaceholderWithDefault(input=tensor, shape=tensor.shape)


def inputs_of(model: Any) -> Any:
    """Returns one row of zeros in the structure of a functional model's inputs; None for other models."""
    for attribute in ("_inputs_struct", "_nested_inputs"):  # of Keras 3, of tf_keras
        structure = getattr(model, attribute, None)
        if structure is not None:
            return tf.nest.map_structure(_zeros, structure)
    inner = getattr(model, "_functional", None)  # of a Sequential of Keras 3
    return None if inner is None else inputs_of(inner)


def _zeros(symbolic: Any) -> Any:
    shape = [1 if size is None else int(size) for size in symbolic.shape]
    dtype = tf.as_dtype(symbolic.dtype)
    values = tf.fill(shape, "") if dtype == tf.string else tf.zeros(shape, dtype)
    is_ragged = getattr(symbolic, "ragged", False) or isinstance(
        getattr(symbolic, "type_spec", None), tf.RaggedTensorSpec
    )
    return tf.RaggedTensor.from_tensor(values, row_splits_dtype=tf.int64) if is_ragged else values


@contextmanager
def noting(layers: list[Any], note: Callable[[Any, Any, Any], None]) -> Iterator[None]:
    """Calls `note` with layer, arguments and result of each call of some layers."""
    for layer in layers:
        # Bypasses Keras's `__setattr__`, which would track the attribute.
        object.__setattr__(layer, "call", _noted(layer, layer.call, note))
    try:
        yield
    finally:
        for layer in layers:
            object.__delattr__(layer, "call")


def _noted(layer: Any, call: Callable[..., Any], note: Callable[[Any, Any, Any], None]) -> Callable[..., Any]:
    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def noted(*arguments: Any, **options: Any) -> Any:
        values = call(*arguments, **options)
        note(layer, arguments, values)
        return values

    return noted  # type: ignore[no-any-return]


def _values(tensor: Any) -> Any:
    return tensor.flat_values if isinstance(tensor, tf.RaggedTensor) else tf.convert_to_tensor(tensor)


def _fed(tensors: list[Any], given: dict[Any, Any]) -> Fed:
    """Returns the lookups that some tensors come from."""
    found: dict[int, Any] = {}
    plainly, has_others = True, False
    ways = [(tensor, True) for tensor in tensors]
    seen: set[tuple[Any, bool]] = set()
    while ways:
        tensor, is_plain = ways.pop()
        key = tensor.ref()
        if (key, is_plain) in seen:
            continue
        seen.add((key, is_plain))
        if key in given:
            found[id(given[key])] = given[key]
            plainly = plainly and is_plain
            continue
        if tensor.op.type == _INPUT:
            has_others = has_others or is_plain
        else:
            ways.extend(_before(tensor, is_plain=is_plain))
    return Fed(tuple(found.values()), plainly and not (found and has_others))


def _before(tensor: Any, *, is_plain: bool) -> Iterator[tuple[Any, bool]]:
    """Yields the inputs of a tensor's operation, and whether its values are just rearranged ones of theirs."""
    inputs = list(tensor.op.inputs)
    kind = tensor.op.type
    if kind in _JOINING:
        count = len(inputs[: _JOINING[kind]])
    elif kind == "RaggedTensorToTensor":
        yield inputs[1], is_plain
        return
    else:
        count = _ARRANGING.get(kind, 0)
    for place, before in enumerate(inputs):
        if kind in _ARRANGING and place >= count:
            continue  # an index or a shape
        yield before, is_plain and place < count


def same_vocabularies(ours: Sequence[Vocabulary | None], theirs: Sequence[Vocabulary | None]) -> bool:
    """Whether the rows of two tables, computed from these vocabularies, have the same meaning."""
    return len(ours) == len(theirs) and all(
        a is not None and b is not None and a.equals(b) for a, b in zip(ours, theirs, strict=True)
    )
