"""Models whose files somebody else has written code into, for the process of the fixture `elsewhere`."""

from __future__ import annotations

import importlib
import json
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sparktf.config.job import JobConfig
from sparktf.errors import ModelContractError
from sparktf.feature import Feature, FeedSpec, Kind

_STRANGER = """
from pathlib import Path

Path(__file__).with_suffix(".ran").touch()
"""


class Begun(NamedTuple):
    """What becomes of such a file.

    Attributes:
        taken: Whether the weights of a model of the same layers are the file's, its optimizer's state too.
        refused: What is said where the user's function makes other layers.
        read: What is said by `keras_model`.
        ran: Whether the code has run by then.
        would_run: Whether it runs once Keras is asked to load the file.
    """

    taken: bool
    refused: str
    read: str
    ran: bool
    would_run: bool


def begun_from_a_strangers_file(flavour: str, folder: str) -> Begun:
    """Begins from a file whose configuration names a class of another module, which runs when it is imported."""
    keras = importlib.import_module(flavour)
    begun = importlib.import_module("sparktf.trainer.node.begun_from")
    trained = importlib.import_module("sparktf.api.trained")
    stranger = f"stranger_of_{flavour}"
    Path(folder, f"{stranger}.py").write_text(_STRANGER, encoding="utf-8")
    sys.path.insert(0, folder)
    ran = Path(folder, f"{stranger}.ran")

    def build(params: dict[str, Any], assets: dict[str, Any]) -> Any:
        x = keras.Input((2,), name="x")
        hidden = keras.layers.Dense(params["width"], "relu", name="hidden")(x)
        model = keras.Model(x, keras.layers.Dense(1, name="y")(hidden))
        model.compile(keras.optimizers.Adam(0.1), "mse")
        return model

    theirs = build({"width": 3}, {})
    theirs.fit(np.ones((4, 2)), np.ones(4), verbose=0)
    file = Path(folder, "model.keras")
    theirs.save(file)
    _rewrite(file, stranger)
    ours = _users(build)

    def begin(width: int) -> Any:
        given = begun.FoundFile(
            file=file,
            label="version 14",
            build=build,
            name="churn:build",
            params={"width": width},
            assets={},
            modules=frozenset({"churn"}),
            with_optimizer=True,
        )
        return begun.begun_from(ours, given)

    found = begin(3)
    taken = all(map(np.array_equal, found.get_weights(), theirs.get_weights()))
    taken = taken and int(np.asarray(found.optimizer.iterations)) == 1
    refused = read = ""
    try:
        begin(4)
    except ModelContractError as error:
        refused = str(error)
    try:
        trained._check_code(file, "version 14", {}, keras.saving.get_custom_objects())
    except ModelContractError as error:
        read = str(error)
    has_run = ran.exists()
    with suppress(TypeError, ValueError):  # Keras 3 imports no module of others
        keras.models.load_model(str(file))
    return Begun(taken, refused, read, has_run, ran.exists())


def _users(build: Any) -> Any:
    model = importlib.import_module("sparktf.trainer.model.model")
    features = (
        Feature(kind=Kind.INPUT, name="x", columns=("x",), dtype="float32", shape=(2,)),
        Feature(kind=Kind.TARGET, name="y", columns=("y",), dtype="float32"),
    )
    plain: dict[str, Any] = {
        "name": "t",
        "model": "churn:build",
        "output": {"path": "/nowhere"},
        "params": {"width": 3},
    }
    config = JobConfig.model_validate({**plain, "data": {"path": "l", "inputs": {"x": "x"}, "targets": {"y": "y"}}})
    return model.UserModel(build, config, {}, FeedSpec(features=features))


def _rewrite(file: Path, module: str) -> None:
    """Has the model be of another module, as somebody does who may write the file."""
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(entries["config.json"])
    config |= {"module": module, "registered_name": None}
    entries["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
