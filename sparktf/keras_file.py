"""Inspects a `.keras` file without Keras: the code that its configuration names, and its layers.

Keras builds a model from the file's configuration, and runs the code it names: a layer's `from_config`, a function of
a Lambda. Code that others chose must not run: weights are numbers, and can be taken alone.
"""

from __future__ import annotations

import builtins
import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sparktf.errors import ModelContractError

_KERAS = ("keras", "tf_keras")
_LAYERS = "sparktf.layers."

_OF_FUNCTIONS = {"activations", "constraints", "initializers", "losses", "metrics", "ops", "optimizers", "regularizers"}
_OF_CLASSES = _OF_FUNCTIONS | {
    "dtype_policies",
    "engine",
    "feature_column",
    "layers",
    "mixed_precision",
    "models",
    "quantizers",
    "random",
}
"""Modules of Keras's whose classes and functions only compute; others open files and connections."""

_CODE = {"Lambda", "TFSMLayer", "__lambda__"}
"""Classes that carry code of their own, or name a file that does."""

_TF_OPERATION, _TF_SECTIONS = "TFOpLambda", {"__operators__", "bitwise", "image", "linalg", "math", "nn", "ragged"}
_TF_SECTIONS |= {"random", "sets", "signal", "sparse", "strings"}
_TF_CALLS = {"Assert", "function", "load_library", "load_op_library", "numpy_function", "print", "py_function"}

_OF_TF_KERAS = {"Functional": "model", "InputLayer": "input"}
"""Class -> the beginning of its default names in tf_keras, where that is not the class's name."""

_SAYS_NOTHING = {
    "activation",
    "build_config",
    "compile_config",
    "dtype",
    "epsilon",
    "momentum",
    "module",
    "noise_shape",
}
_SAYS_NOTHING |= {"rate", "recurrent_activation", "registered_name", "seed", "shared_object_id", "trainable"}
_SAYS_NOTHING_ENDS = ("_constraint", "_initializer", "_regularizer")
"""Settings of layers that do not change the meaning of their weights."""


class KerasFile(NamedTuple):
    """The description of a model in its file."""

    flavour: str  # The Keras that saved it
    config: dict[str, Any]  # Of the model, as Keras's JSON
    has_assets: bool  # Layers keep more than weights, such as a vocabulary that they were adapted to


def read_keras_file(file: Path, label: str) -> KerasFile:
    """Reads the description of a file.

    Args:
        label: The model's name in messages.

    Raises:
        ModelContractError: it is no Keras file.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            version = str(json.loads(archive.read("metadata.json"))["keras_version"])
            config = json.loads(archive.read("config.json"))
            has_assets = any(name.startswith("assets/") and not name.endswith("/") for name in archive.namelist())
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, RecursionError) as error:
        raise ModelContractError(f"{label} is not a .keras file: {error}") from None
    if not isinstance(config, dict):
        raise ModelContractError(f"{label} is not a .keras file: its config.json is not an object")
    return KerasFile("tf_keras" if version.startswith("2.") else "keras", config, has_assets)


# ---- whose code ----


def strangers(config: Mapping[str, Any], modules: Collection[str], registered: Collection[str]) -> tuple[str, ...]:
    """Returns the names in a configuration that Keras would run and that are not its own, sparktf's or the user's.

    Args:
        modules: The user's.
        registered: Names known to Keras already: those that the user has registered or passed.
    """
    return tuple(dict.fromkeys(_strangers(config, modules, registered)))


def _strangers(value: Any, modules: Collection[str], registered: Collection[str]) -> Iterator[str]:
    if isinstance(value, Mapping):
        if (found := _stranger(value, modules, registered)) is not None:
            yield found
        for below in value.values():
            yield from _strangers(below, modules, registered)
    elif isinstance(value, list):
        for below in value:
            yield from _strangers(below, modules, registered)


def _stranger(value: Mapping[str, Any], modules: Collection[str], registered: Collection[str]) -> str | None:
    kind = value.get("class_name")
    if kind in _CODE:
        return f"a {str(kind).strip('_')}"
    if kind == _TF_OPERATION:
        return _operation(value)
    module = next((value[key] for key in value if key.endswith("module") and value[key] is not None), None)
    if module is None:
        return None
    is_function = kind == "function" or kind is None
    name = value.get("config") if kind == "function" else kind
    known_as = name if is_function else value.get("registered_name", name)
    if isinstance(known_as, str) and known_as in registered:
        return None
    said = f"{module}.{name}" if name is not None else str(module)
    # With a dot in it a name leads on from a module that is known to any other one.
    is_plain = isinstance(module, str) and isinstance(name, str) and name.isidentifier()
    return None if is_plain and _is_known(str(module), str(name), modules, is_function=is_function) else said


def _is_known(module: str, name: str, modules: Collection[str], *, is_function: bool) -> bool:
    if module == "builtins":
        return not hasattr(builtins, name)
    if module in modules or module.startswith(_LAYERS):
        return True
    package, *below = module.split(".")
    section = next((part for part in below if part not in ("api", "src", "_tf_keras", "keras")), None)
    if package not in _KERAS:
        return False
    return (section is None and not is_function) or section in (_OF_FUNCTIONS if is_function else _OF_CLASSES)


def _operation(value: Mapping[str, Any]) -> str | None:
    """Returns the TensorFlow operation behind a layer, unless it only computes."""
    inner = value.get("config")
    called = str(inner.get("function")) if isinstance(inner, Mapping) else "?"
    section, _, name = called.rpartition(".")
    is_known = called not in _TF_CALLS if not section else section.split(".")[0] in _TF_SECTIONS
    return None if is_known and name not in _TF_CALLS else f"tf.{called}"


# ---- whose layers ----


def same_layers(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> bool | None:
    """Whether the weights of two models belong to the same layers, one by one, in the same order.

    Settings that change the meaning of a weight count, such as a lookup's vocabulary. Settings that only one of the two
    has come from another version of Keras.

    Returns:
        None if the configurations do not tell: for subclassed models.
    """
    if not all(isinstance(side.get("config"), Mapping) and "layers" in side["config"] for side in (theirs, ours)):
        return None
    return _same(_named_anew(theirs), _named_anew(ours))


def _same(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        if theirs.get("class_name") == ours.get("class_name") in _CODE:
            return True
        return all(_same(theirs[key], ours[key]) for key in theirs.keys() & ours.keys() if not _says_nothing(key))
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(theirs) == len(ours) and all(map(_same, theirs, ours))
    return bool(theirs == ours)


def _says_nothing(key: str) -> bool:
    return key in _SAYS_NOTHING or key.endswith(_SAYS_NOTHING_ENDS)


def _named_anew(config: Mapping[str, Any]) -> Any:
    """Returns a configuration whose layers that have no names of their own are numbered anew, as they come.

    Keras numbers them as a process makes them.
    """
    plain = json.loads(json.dumps(config, default=str))  # tuples are lists in the file
    numbers: dict[str, int] = defaultdict(int)
    names: dict[str, str] = {}
    for kind, name in _layers(plain):
        base = _base_name(kind, name)
        if name not in names and re.fullmatch(rf"{re.escape(base)}(_\d+)?", name):
            names[name] = f"{base}#{numbers[base]}"
            numbers[base] += 1
    return _renamed(plain, names)


def _layers(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        kind, inner = value.get("class_name"), value.get("config")
        if isinstance(kind, str) and isinstance(inner, dict) and isinstance(inner.get("name"), str):
            yield kind, inner["name"]
        for below in value.values():
            yield from _layers(below)
    elif isinstance(value, list):
        for below in value:
            yield from _layers(below)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(below, names) for key, below in value.items()}
    if isinstance(value, list):
        return [_renamed(below, names) for below in value]
    return names.get(value, value) if isinstance(value, str) else value


def _base_name(kind: str, name: str) -> str:
    """Returns the beginning of a layer's default name."""
    if kind in _OF_TF_KERAS and re.fullmatch(rf"{_OF_TF_KERAS[kind]}(_\d+)?", name):
        return _OF_TF_KERAS[kind]
    return re.sub(r"_\d+$", "", name) if kind.endswith("OpLambda") else _snake_case(kind)


def _snake_case(name: str) -> str:
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
