"""The coordinator's copy of a model whose variables are on parameter servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from sparktf.errors import StorageNotFoundError
from sparktf.knobs import KNOBS
from sparktf.storage.transactions.checkpoints import MANIFEST, Manifest
from sparktf.trainer.model.averages import copy_averages, take_averages
from sparktf.trainer.model.model import UserModel
from sparktf.trainer.node.checkpoint import LocalCheckpoint
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.saving import Saves


class CommittedCopy:
    """See `PlainCopy`. It is made when first needed, of the model's variables and averages, or with its optimizer."""

    def __init__(
        self, place: Place, saves: Saves, source: UserModel, make: Callable[[], UserModel], *, trains: bool = False
    ) -> None:
        """Makes no copy yet.

        Args:
            source: The model in training.
            make: Builds the same model in this process.
            trains: Copy the optimizer's state, too.
        """
        self._place = place
        self._saves = saves
        self._source = source
        self._make = make
        self._trains = trains

    @cached_property
    def model(self) -> UserModel:
        return self._make()

    @cached_property
    def checkpoint(self) -> LocalCheckpoint:
        optimizer = {"optimizer": self.model.optimizer} if self._trains or self.model.keeps_averages else {}
        return LocalCheckpoint(model=self.model.model, **optimizer)

    def update(self) -> None:
        """See `PlainCopy`. One variable at a time: two copies of all may not fit into memory."""
        self._copy(self._source.model.weights, self.model.model.weights)
        if self._trains:
            self._copy(self._source.optimizer.variables, self.model.optimizer.variables)
        else:
            copy_averages(self.model.model, self._source.model)
        self._take_averages()

    @staticmethod
    def _copy(sources: Sequence[Any], targets: Sequence[Any]) -> None:
        for source, target in zip(sources, targets, strict=True):
            target.assign(source)

    def complete(self, *, best: bool) -> None:
        """See `PlainCopy`. Reads the last checkpoint, since only committed weights are published."""
        if best:
            self._take_averages()  # a committed checkpoint has the trained weights, not their averages
            return
        self._place.enter("exporting")
        self._saves.wait()
        path = self._place.rundir.checkpoint(self._saves.step)
        files = self._committed(path)
        if files:
            self.checkpoint.restore_files(self._place.storage, path, files, self._place.work / "restore")
            self._take_averages()
        else:
            self.update()

    def _take_averages(self) -> None:
        take_averages(self.model.model, self.model.model)

    def _committed(self, path: str) -> tuple[str, ...]:
        """Waits for a checkpoint, and returns its files; none if it is not committed in time."""
        deadline_s = time.monotonic() + self._place.spec.config.timeouts.upload
        while time.monotonic() < deadline_s:
            try:
                content = self._place.storage.read_bytes(f"{path}/{MANIFEST}")
            except StorageNotFoundError:
                time.sleep(KNOBS.shard_poll_s)
            else:
                return tuple(file.name for file in Manifest.model_validate_json(content).files)
        return ()
