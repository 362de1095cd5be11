"""What the models here write down for `integration.watch`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


class Books:
    """Keeps the ids of every update of this process, and waits where a test wants it to."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._folder = Path(params["books"])
        self._hold_at: int = params["hold_at"]
        self._hold_evaluation_at: int = params.get("hold_evaluation_at", 0)
        self._updates = 0
        self._evaluated = 0
        self._waits = 0

    def update(self, ids: npt.NDArray[np.int64]) -> None:
        """Notes one update. Rows that a model is merely built on have the id 0, and do not count."""
        if not ids.any():
            return
        self._updates += 1
        with (self._folder / f"ids-{os.getpid()}.jsonl").open("a") as log:
            log.write(json.dumps(ids.tolist()) + "\n")
        if self._updates == self._hold_at or (self._folder / "by-one").exists():
            self._wait()

    @property
    def has_evaluations(self) -> bool:
        """Whether it is to be told of them."""
        return self._hold_evaluation_at > 0

    def evaluate(self, ids: npt.NDArray[np.int64]) -> None:
        """Notes one batch of an evaluation, as `update` does."""
        if ids.any():
            self._evaluated += 1
            if self._evaluated == self._hold_evaluation_at:
                self._wait()

    def _wait(self) -> None:
        told = self._folder / f"held-{os.getpid()}.json"
        part = told.with_suffix(".part")
        self._waits += 1
        part.write_text(json.dumps({"pid": os.getpid(), "index": _index(), "number": self._waits}))
        part.rename(told)
        go = self._folder / f"go-{os.getpid()}"
        while (self._folder / "hold").exists() and not go.exists():
            time.sleep(0.05)
        told.unlink()
        go.unlink(missing_ok=True)


def _index() -> int:
    config: dict[str, Any] = json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": 0}}'))
    index: int = config["task"]["index"]
    return index
