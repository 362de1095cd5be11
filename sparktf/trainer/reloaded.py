"""A fresh process that loads an exported model as a reader does, without the code that built it.

`python -m sparktf.trainer.reloaded` loads the SavedModel, which must give the predictions stored beside it, and
`model.keras`, if Keras can load that by itself. Standard input says in JSON where: the `folder`, and the `report`, a
file for its findings; the process with which it ends, `parent`; packages that it must not import, and modules to
import: `refused` and `imports`.
"""

from __future__ import annotations

import importlib
import importlib.abc
import json
import sys
import zipfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from sparktf.process.prctl import die_with
from sparktf.process.resident import forget_libraries, greatest_mib
from sparktf.trainer.model.predictions import ROW_SPLITS, Predictions, as_arrays, difference, named_outputs
from sparktf.trainer.preload import put_off_rare, without_collector

_OWN = ("keras", "tf_keras", "sparktf", "builtins")
"""Packages whose classes Keras finds without the model's own code."""

_LARGE_NBYTES = 100_000_000
"""Keras needs four times the size of a file to load it, while the SavedModel's memory is not freed yet."""

_FUNCTIONS = ("function", "Lambda", "__lambda__")
"""Classes of functions in a configuration; Keras's own functions stand there by name only."""


class _Refused(importlib.abc.MetaPathFinder):
    """Refuses to import some packages, wherever they are installed."""

    def __init__(self, packages: Collection[str]) -> None:
        self._packages = set(packages)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        del path, target
        if fullname.partition(".")[0] in self._packages:
            raise ModuleNotFoundError(f"{fullname} is the model's own code", name=fullname)


def main() -> None:
    told = json.loads(sys.stdin.read() or "{}")
    if not told or not die_with(told["parent"]):  # whoever has started it is gone
        return
    folder, report = told["folder"], told["report"]
    sys.meta_path.insert(0, _Refused(told["refused"]))
    stored, left_out = Predictions.read(Path(folder)), ""
    error = _imported(told["imports"])
    if error is None:
        error, left_out = compare_export(Path(folder), stored)
    found = {"error": error, "left_out": left_out, "rows": stored.rows, "mib": greatest_mib()}
    Path(report).write_text(json.dumps(found), encoding="utf-8")


def _imported(modules: Sequence[str]) -> str | None:
    """Imports modules; returns the first error."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            return f"publish.imports: {module} cannot be imported: {_in_a_line(error)}"
    return None


def compare_export(folder: Path, stored: Predictions) -> tuple[str | None, str]:
    """Returns the error of an exported model, if it has one, and why its `model.keras` was not compared, if so."""
    error = _saved_model(folder / "saved_model", stored)
    return (error, "") if error is not None else _keras(folder / "model.keras", stored)


def _saved_model(path: Path, stored: Predictions) -> str | None:
    """Returns the error of the SavedModel; None if its predictions are as stored."""
    put_off_rare()
    with without_collector():
        import tensorflow as tf  # noqa: PLC0415 - it reads its environment when imported

    forget_libraries()
    try:
        serve = tf.saved_model.load(str(path)).signatures["serving_default"]
        found = as_arrays(serve(**{name: tf.constant(array) for name, array in stored.inputs.items()}))
    except Exception as error:  # noqa: BLE001 - readers would meet the same error
        return f"its SavedModel cannot be used without the code that built it: {_in_a_line(error)}"
    said = difference(stored.outputs, found, stored.about.tolerance)
    return said and f"its SavedModel does not give the predictions of the model that was trained: {said}"


def _keras(path: Path, stored: Predictions) -> tuple[str | None, str]:
    """Returns the error of `model.keras`, and why it was not compared, if so."""
    if not path.exists():
        return None, "export.formats leaves it out"
    if path.stat().st_size > _LARGE_NBYTES:
        return None, f"it is larger than {_LARGE_NBYTES / 1e6:g} MB"
    import tensorflow as tf  # noqa: PLC0415 - as above

    about = stored.about
    x = {name: _whole(name, ragged, stored) for name, ragged in about.inputs.items()}
    try:
        with without_collector():
            keras = importlib.import_module(about.flavour)
        model = keras.models.load_model(str(path), compile=False)
        call = tf.function(lambda x: model(x, training=False), autograph=False)
        y = call(x if len(x) > 1 else next(iter(x.values())))
    except Exception as error:  # noqa: BLE001 - as above
        if own := sorted(set(own_code(_config_of(path)))):
            return None, f"it needs the model's own code: {', '.join(own)}"
        return f"its model.keras cannot be used: {_in_a_line(error)}", ""
    found = as_arrays(named_outputs(y, about.output_names or about.target_names, about.target_names))
    said = difference(stored.outputs, found, about.tolerance)
    return said and f"its model.keras does not give the predictions of the model that was trained: {said}", ""


def _whole(name: str, ragged: bool, stored: Predictions) -> Any:
    import tensorflow as tf  # noqa: PLC0415 - as above

    values = tf.constant(stored.inputs[name])
    if not ragged:
        return values
    return tf.RaggedTensor.from_row_splits(values, stored.inputs[f"{name}{ROW_SPLITS}"])


def _config_of(path: Path) -> Any:
    """Returns the configuration in a `.keras` file, without how the model is compiled."""
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
    return {key: value for key, value in config.items() if key != "compile_config"}


def own_code(config: Any) -> Iterator[str]:
    """Yields the classes and functions in a model's configuration that Keras does not find by itself."""
    if isinstance(config, dict):
        name = config.get("class_name")
        if name in _FUNCTIONS or (isinstance(name, str) and "registered_name" in config):
            registered = str(config.get("registered_name") or "")
            package = str(config.get("module") or registered.partition(">")[0]).partition(".")[0]
            if name in _FUNCTIONS or package not in _OWN:
                yield str(config["config"]) if name == "function" else registered or str(name)
        config = list(config.values())
    if isinstance(config, list):
        for part in config:
            yield from own_code(part)


def _in_a_line(error: BaseException) -> str:
    from sparktf.trainer.model.said import first_line  # noqa: PLC0415 - TensorFlow reads its environment when imported

    return f"{type(error).__name__}: {first_line(error)}"


if __name__ == "__main__":
    main()
