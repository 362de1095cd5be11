"""Functions for `train.callbacks` of tests, and how a chief refuses some; for processes that have TensorFlow."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sparktf.config.job import JobConfig
from sparktf.errors import SparkTFError


def telling(params: Mapping[str, Any]) -> list[Any]:
    """Returns a callback that writes down what it is told, and ends the training after epoch `params["last"]`."""
    keras = importlib.import_module(params["flavour"])

    class Telling(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def say(self, what: str, **more: Any) -> None:
            with Path(params["heard"]).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"what": what, **more}) + "\n")

        def on_train_begin(self, logs: Any = None) -> None:
            self.say("begin")

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.say(f"begin {epoch}")

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            weight = float(sum(abs(weight).sum() for weight in self.model.get_weights()))
            self.say(f"end {epoch}", logs=dict(logs), weight=weight)
            logs.clear()
            self.model.stop_training = epoch == params["last"]

        def on_train_end(self, logs: Any = None) -> None:
            self.say("end", logs=dict(logs))

    return [Telling(), Telling()]


def scheduled(params: Mapping[str, Any]) -> list[Any]:
    """Returns a schedule: nothing is learned in the first epoch."""
    return [importlib.import_module(params["flavour"]).callbacks.LearningRateScheduler(lambda epoch, rate: 0.2 * epoch)]


def refused(params: Mapping[str, Any]) -> Any:
    """Returns what no chief takes, by its name."""
    callbacks = importlib.import_module(params["flavour"]).callbacks
    made: dict[str, Callable[[], Any]] = {
        "no list": lambda: callbacks.CSVLogger("log"),
        "no callback": lambda: [len],
        "schedule": lambda: [callbacks.LearningRateScheduler(lambda epoch, rate: rate)],
        "plateau": lambda: [callbacks.ReduceLROnPlateau()],
        "restores": lambda: [callbacks.EarlyStopping(restore_best_weights=True, **params.get("stopping", {}))],
        "batches": lambda: [callbacks.ProgbarLogger()],
        "checkpoints": lambda: [callbacks.ModelCheckpoint("best.keras")],
        "board": lambda: [callbacks.TensorBoard(os.devnull)],
        "accepted": lambda: [callbacks.EarlyStopping(), callbacks.CSVLogger(os.devnull)],
    }
    return made[params["what"]]()


def answer(config: JobConfig) -> str:
    """Returns how a chief refuses the configuration's callbacks, "" where it takes them."""
    module = importlib.import_module("sparktf.trainer.node.user_callbacks")
    model = importlib.import_module(config.params["flavour"]).Sequential()
    try:
        module.UserCallbacks(config, model)
    except SparkTFError as error:
        return str(error)
    return ""
