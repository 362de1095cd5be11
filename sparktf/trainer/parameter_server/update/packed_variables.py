"""Packs small variables: an update reads those of one server in one message, and sends their gradients in one.

Each message costs both sides as much processor time as copying a megabyte, whatever its size, and an update of a small
model consists of little else than messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute.ps_values import CachingVariable
from tensorflow.python.ops import control_flow_v2_func_graphs as branches
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

_BRANCHES = (branches.CondBranchFuncGraph, branches.WhileCondFuncGraph, branches.WhileBodyFuncGraph)
_SMALL_NBYTES = 1 << 17
"""A larger variable is sent by itself: its gradient need not wait for others, and its message is worth its cost."""


def small(variables: Sequence[Any], gradients: Sequence[Any]) -> list[int]:
    """Returns the places of the tf.Variables to pack, given example gradients: those of partly read ones are sparse."""
    pairs = enumerate(zip(variables, gradients, strict=True))
    return [i for i, (variable, gradient) in pairs if isinstance(gradient, tf.Tensor) and _is_small(variable, gradient)]


class PackedVariables:
    """The packed variables of an update in the graph that is being recorded, with their current values.

    Attributes:
        flat: Their values on the worker, those of each server in one tensor.
        values: The same, one by one, in the order of their places.
    """

    def __init__(self, variables: Sequence[Any], places: Sequence[int], read: Sequence[Any] | None = None) -> None:
        """Reads them.

        Args:
            places: The result of `small`.
            read: The result of `read` if they have not changed since.
        """
        self._places = sorted(places, key=lambda place: variables[place].device)
        self._variables = [variables[place] for place in self._places]
        self._graph = tf.compat.v1.get_default_graph()
        self.flat = list(self.read() if read is None else read)
        groups = [group for _, group in self._of_servers()]
        self.values = [part for flat, group in zip(self.flat, groups, strict=True) for part in _parts(flat, group)]

    def read(self) -> list[Any]:
        """Returns their current values in the form of `flat`."""
        flats = []
        for device, group in self._of_servers():
            with tf.device(device):
                # Not the wrapper's value, which may be one that was read before.
                flat = _flat([_inner(variable).value() for variable in group])
            flats.append(tf.identity(flat))
        return flats

    def _of_servers(self) -> list[tuple[str, list[Any]]]:
        return [(device, list(group)) for device, group in groupby(self._variables, lambda variable: variable.device)]

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Replaces reads of the variables by the packed values, except in functions, which other graphs may call."""
        inner = [_inner(variable) for variable in self._variables]
        for variable, value in zip(inner, self.values, strict=True):
            read = variable.value
            variable.value = lambda value=value, read=read: value if self._is_here() else read()
        try:
            yield
        finally:
            for variable in inner:
                del variable.value

    def _is_here(self) -> bool:
        """Whether this graph, or a branch or a loop in it, is being recorded; this graph is itself a closure's loop."""
        graph = tf.compat.v1.get_default_graph()
        while graph is not self._graph and isinstance(graph, _BRANCHES):
            graph = graph.outer_graph
        return graph is self._graph

    def gradients(self, by_variable: Sequence[Any], by_value: Sequence[Any]) -> list[Any]:
        """Returns the gradients by all variables of the update.

        Args:
            by_variable: Gradients by other reads of a variable, such as of some rows.
            by_value: Gradients by `values`.
        """
        found = list(by_variable)
        for place, gradient in zip(self._places, by_value, strict=True):
            parts = [tf.convert_to_tensor(part) for part in (gradient, found[place]) if part is not None]
            found[place] = tf.add_n(parts) if parts else None
        return found

    def sent(self, gradients: Sequence[Any]) -> list[Any]:
        """Returns the gradients, those by packed variables on their parameter servers."""
        found = list(gradients)
        pairs = [pair for pair in zip(self._places, self._variables, strict=True) if found[pair[0]] is not None]
        for device, some in groupby(pairs, lambda pair: pair[1].device):
            places, group = zip(*some, strict=True)
            flat = _flat([found[place] for place in places])
            with tf.device(device):
                for place, gradient in zip(places, _parts(tf.identity(flat), group), strict=True):
                    found[place] = gradient
        return found


def _is_small(variable: Any, gradient: Any) -> bool:
    # Other classes override how they are read, for instance with another dtype.
    is_plain = type(_inner(variable)).value is BaseResourceVariable.value and variable.dtype == gradient.dtype
    is_known = variable.dtype == tf.float32 and variable.shape.is_fully_defined()
    return is_plain and is_known and 4 * variable.shape.num_elements() <= _SMALL_NBYTES


def _inner(variable: Any) -> Any:
    """Returns the variable that the strategy has wrapped, through which it is finally read."""
    return variable.get() if isinstance(variable, CachingVariable) else variable


def _flat(tensors: Sequence[Any]) -> Any:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)


def _parts(flat: Any, variables: Sequence[Any]) -> list[Any]:
    parts = tf.split(flat, [variable.shape.num_elements() for variable in variables])
    return [tf.reshape(part, variable.shape) for part, variable in zip(parts, variables, strict=True)]
