"""Canonical names of variables, equal for the same variable of two models."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any


def layers_of(model: Any) -> list[Any]:
    """Returns the model and all layers, nested ones too, each once."""
    return list({id(layer): layer for layer in model._flatten_layers()}.values())


class VariableNames:
    """Names of a model's variables: those of the enclosing layers, and its own.

    Keras numbers unnamed layers in the order in which a process makes them. Here they are numbered within the model, by
    class. Names that the user has given stay.
    """

    def __init__(self, model: Any) -> None:
        numbers: dict[str, set[int]] = defaultdict(set)
        for layer in layers_of(model):
            base = snake_case(type(layer).__name__)
            if found := re.fullmatch(rf"{re.escape(base)}(?:_(\d+))?", layer.name):
                numbers[base].add(int(found[1] or 0))
        self._names = {
            _numbered(base, number): _numbered(base, place)
            for base, taken in numbers.items()
            for place, number in enumerate(sorted(taken))
        }
        self._paths = self._paths_below(model)
        self._owners = {id(v): layer for layer in layers_of(model) for v in _own_variables(layer)}

    def of_layer(self, layer: Any) -> str:
        return self._names.get(layer.name, str(layer.name))

    def path_of(self, layer: Any) -> str:
        """Returns the path of a layer: enclosing layers and its name; "" for the model itself."""
        return self._paths.get(id(layer), "")

    def of_variable(self, variable: Any) -> str:
        """Returns the path of a variable."""
        name = str(variable.name).partition(":")[0].rpartition("/")[2]
        owner = self._owners.get(id(variable))
        path = "" if owner is None else self.path_of(owner)
        return f"{path}/{name}" if path else name

    def _paths_below(self, model: Any) -> dict[int, str]:
        """Returns the shortest path to each layer, by its id."""
        paths = {id(model): ""}
        layers = deque([model])
        while layers:
            parent = layers.popleft()
            above = paths[id(parent)]
            for layer in parent._flatten_layers(recursive=False, include_self=False):
                if id(layer) not in paths:
                    name = self.of_layer(layer)
                    paths[id(layer)] = f"{above}/{name}" if above else name
                    layers.append(layer)
        return paths


def _own_variables(layer: Any) -> Iterator[Any]:
    """Yields the variables of a layer itself, without those of nested layers."""
    for kind in ("trainable", "non_trainable"):
        for what in ("variables", "weights"):  # of Keras 3, of tf_keras
            found = getattr(layer, f"_{kind}_{what}", None)
            yield from found if isinstance(found, list) else ()


def each_once(names: Iterable[str]) -> Iterator[str]:
    """Yields distinct names: a second "name" as "name#2"."""
    seen: dict[str, int] = defaultdict(int)
    for name in names:
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name}#{seen[name]}"


def snake_case(name: str) -> str:
    """Returns Keras's base name for layers of a class."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def _numbered(base: str, number: int) -> str:
    return f"{base}_{number}" if number else base
