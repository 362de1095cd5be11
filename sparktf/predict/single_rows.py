"""Scores single rows without a Spark job: a process on the driver's host has TensorFlow and the model."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any
from weakref import finalize

import pyarrow as pa

from sparktf.errors import NodeLostError
from sparktf.executor.scored_rows import ScoringSettings, scored_batch
from sparktf.executor.scorer import Scorer, ScorerHome
from sparktf.predict.loaded import LoadedModel
from sparktf.process.process_identity import own_identity


class SingleRows:
    """Scores rows one at a time; its process stays until this object is gone, or the driver. Thread-safe."""

    def __init__(self, model: LoadedModel, names: tuple[str, ...]) -> None:
        """Starts nothing before the first row.

        Args:
            model: Of one output.
            names: The columns of a row.
        """
        folder = Path(tempfile.mkdtemp(prefix="sparktf-"))
        self._home = ScorerHome(own_identity(), folder, "of the driver")
        self._settings = ScoringSettings(
            model=model.saved(),
            feed=model.feed,
            names=names,
            kept=(),
            outputs=model.feed.outputs[:1],
            batch_rows=1,
            max_bad_rows=0,
        )
        self._lock = threading.Lock()
        self._open: list[Scorer] = []
        finalize(self, _leave, self._open, folder)

    def score(self, row: Mapping[str, Any]) -> Any:
        """Returns the output for a row, by its columns' names: a number, or a list of numbers.

        Raises:
            BadValueError: a value cannot become a tensor as in training.
            ModelContractError: the model cannot be loaded, or fails.
            NodeLostError: the process has ended, or hangs; the next call starts another.
            StorageError: the model cannot be read.
        """
        names = self._settings.names
        batch = pa.RecordBatch.from_arrays([pa.array([row[name]]) for name in names], list(names))
        with self._lock:
            if not self._open:
                self._open.append(Scorer(self._settings.model, self._home))
            try:
                found = scored_batch(self._open[0], batch, self._settings)
            except NodeLostError:
                self._open.pop().close()
                raise
        return found.column(0)[0].as_py()


def _leave(opened: list[Scorer], folder: Path) -> None:
    for scorer in opened:
        with suppress(OSError):
            scorer.close()
    rmtree(folder, ignore_errors=True)
