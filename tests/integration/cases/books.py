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
        self._updates = 0

    def update(self, ids: npt.NDArray[np.int64]) -> None:
        """Notes one update. Rows that a model is merely built on have the id 0, and do not count."""
        if not ids.any():
            return
        self._updates += 1
        with (self._folder / f"ids-{os.getpid()}.jsonl").open("a") as log:
            log.write(json.dumps(ids.tolist()) + "\n")
        if self._updates == self._hold_at:
            self._wait()

    def _wait(self) -> None:
        told = self._folder / f"held-{os.getpid()}.json"
        part = told.with_suffix(".part")
        part.write_text(json.dumps({"pid": os.getpid(), "index": _index()}))
        part.rename(told)
        while (self._folder / "hold").exists():
            time.sleep(0.05)
        told.unlink()


def _index() -> int:
    config: dict[str, Any] = json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": 0}}'))
    index: int = config["task"]["index"]
    return index
