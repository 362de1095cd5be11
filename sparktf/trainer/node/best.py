"""The best epoch's weights, from the evaluation that finds them to the export."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np

from sparktf.results.keep import Evaluation, KeepRule, Kept
from sparktf.trainer.node.checkpoint import LocalCheckpoint
from sparktf.trainer.node.place import Place
from sparktf.wire.restore import BestWeights


class BestEpoch:
    """Keeps the weights of the best evaluation so far.

    Those of this attempt are a local copy on every node, so that the export does not depend on the storage; those of an
    earlier attempt are a committed checkpoint.
    """

    def __init__(self, rule: KeepRule, place: Place, sum_over_workers: Callable[[Any], Any]) -> None:
        """Writes nothing yet."""
        self._rule = rule
        self._place = place
        self._folder = place.work / "best"
        self._sum = sum_over_workers
        self._restored: BestWeights | None = place.spec.restore.best if place.spec.restore else None
        self._best = self._restored.evaluation if self._restored is not None else None

    def offer(self, evaluation: Evaluation, checkpoint: LocalCheckpoint) -> None:
        """Keeps the current weights if the leader finds them the best so far; called on every node."""
        better = self._place.leads and self._rule.is_better(evaluation, self._best)
        if int(self._sum(np.array([better], np.int64))[0]):
            shutil.rmtree(self._folder, ignore_errors=True)
            checkpoint.write(self._folder)
            self._best, self._restored = evaluation, None

    def restore(self, checkpoint: LocalCheckpoint) -> Kept | None:
        """Restores and describes the best weights; None if no evaluation gave a number.

        Raises:
            StorageError: an earlier attempt's checkpoint cannot be downloaded.
        """
        if self._best is None:
            return None
        if self._restored is not None:
            checkpoint.restore_files(self._place.storage, self._restored.path, self._restored.files, self._folder)
        else:
            checkpoint.read(self._folder)
        best, rule = self._best, self._rule
        return Kept(epoch=best.epoch, step=best.step, metric=rule.metric, mode=rule.mode, value=rule.value(best))
