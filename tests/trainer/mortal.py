"""A model whose trainers die, one after the other, each at one of its operations with the other members of its gang."""

from __future__ import annotations

import importlib
import os
import signal
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from trainer import zoo

from sparktf.trainer.node.outputs import Output
from sparktf.trainer.node.place import Place
from sparktf.trainer.sync.exchange.outliving import GenerationsExchange
from sparktf.trainer.sync.regroupings import Regroupings

OPERATIONS = ("sum", "gather", "from_leader", "fill", "sum_and_gather")
PACE_S = 0.02


class Deaths:
    """The deaths of a node's trainers, told by the folder that they share: a file for each that has begun."""

    def __init__(self, folder: Path, at: list[tuple[int, bool]]) -> None:
        """Takes how many operations each is in before its death, and whether it is after the last one."""
        self._folder = folder
        self._at = at

    def next(self) -> tuple[int, bool] | None:
        """Returns the death of the process that asks; None where all have been."""
        number = len(list(self._folder.iterdir()))
        if number < len(self._at):
            (self._folder / str(number)).touch()
            return self._at[number]
        return None


class Mortal:
    """Counts the operations of this process, or those in which it leads a whole gang, and ends it at one of them."""

    def __init__(self, deaths: Deaths | None, *, leading: bool) -> None:
        self._deaths = deaths
        self._leading = leading
        self._death = None if leading or deaths is None else deaths.next()
        self._begun = 0

    def in_place_of(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        """Returns an operation that kills, or slows down a gang that lacks a member."""

        @wraps(operation)
        def made(exchange: GenerationsExchange, *arguments: Any) -> Any:
            if exchange.members < 3:
                time.sleep(PACE_S)
            if self._leading and not (exchange.leads and exchange.members == 3):
                return operation(exchange, *arguments)
            if self._leading and not self._begun and self._deaths is not None:
                self._death = self._deaths.next()
            self._begun += 1
            self._die(after=False)
            result = operation(exchange, *arguments)
            self._die(after=True)
            return result

        return made

    def _die(self, *, after: bool) -> None:
        if self._death == (self._begun, after):
            os.kill(os.getpid(), signal.SIGKILL)


def build(params: dict[str, Any], assets: dict[str, Any]) -> Any:
    """Returns `zoo.counted`; the trainers of the last worker are mortal, or all leaders (`leaders_die`).

    Its metric is how far the mean count of the rows is from `params["aim"]`.
    """
    model = zoo.counted(params, assets)
    tf = importlib.import_module("tensorflow")

    def far(y_true: Any, y_pred: Any) -> Any:
        del y_true
        return tf.abs(tf.squeeze(y_pred, -1) / tf.cast(tf.shape(y_pred)[0], y_pred.dtype) - params.get("aim", 0))

    model.compile(model.optimizer, model.loss, metrics=[far])
    return model


def _mark() -> None:
    begin = Regroupings.__init__

    def begun(self: Regroupings, place: Place) -> None:
        begin(self, place)
        params = place.spec.config.params
        node = place.spec.node
        deaths = Deaths(Path(params["deaths"]), [(int(count), bool(after)) for count, after in params["dies"]])
        leading = bool(params.get("leaders_die"))
        mortal = Mortal(deaths if leading or node.index == 2 else None, leading=leading)
        for name in OPERATIONS:
            setattr(GenerationsExchange, name, mortal.in_place_of(getattr(GenerationsExchange, name)))

    Regroupings.__init__ = begun  # type: ignore[method-assign]
    Output.export = _deadly(Output.export)  # type: ignore[method-assign]


def _deadly(export: Callable[..., None]) -> Callable[..., None]:
    """Returns an export after which the first leader dies, and before which the second one, if there is a folder."""

    @wraps(export)
    def exported(output: Output, model: Any) -> None:
        place = output._place
        folder = Path(place.spec.config.params.get("exports", ""))
        number = len(list(folder.iterdir())) if folder.name and place.leads else 2
        if number < 2:
            (folder / f"{place.spec.node}").touch()
        if number != 1:
            export(output, model)
        if number < 2:
            os.kill(os.getpid(), signal.SIGKILL)

    return exported


_mark()
