"""What both peers' workers share: the model, its update, the reading by pyarrow, and the times that they write down."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from _core import bind

READ_ROWS = 65_536
COLUMNS = 16


class Worker:
    """One of the workers of a run, on a core of its own."""

    def __init__(self, spec: dict[str, Any], rank: int, workers: int) -> None:
        """Binds this process to its core.

        Args:
            spec: "folder" of the lake, "hidden" layers, the "share" of a worker of each update, and "out" for times.
        """
        bind(rank)
        self._spec = spec
        self._rank = rank
        self._workers = workers
        self._updates = 0
        self._first_s = self._first_cpu_s = 0.0

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Reads this worker's share of each update, as many as every worker has."""
        share = self._spec["share"]
        files = sorted(Path(self._spec["folder"]).glob("*.parquet"))
        rows = [pq.read_metadata(file).num_rows for file in files]
        updates = min(sum(rows[i :: self._workers]) // share for i in range(self._workers))
        return islice(_cut(_read(files[self._rank :: self._workers]), share), updates)

    def updated(self) -> None:
        """Notes the end of an update."""
        self._updates += 1
        if self._updates == 1:
            self._first_s, self._first_cpu_s = time.time(), time.process_time()

    def end(self, loss: float) -> None:
        """Writes down times and rows."""
        cpu = time.process_time() - self._first_cpu_s
        times = {"first": self._first_s, "end": time.time(), "cpu": cpu}
        rows = self._updates * self._spec["share"]
        file = Path(self._spec["out"]) / f"worker-{self._rank}.json"
        file.write_text(json.dumps({**times, "rows": rows, "loss": loss}))


class Network:
    """The model of `_mlp.py`, for PyTorch."""

    def __init__(self, hidden: list[int]) -> None:
        """Makes the layers; `module` is replaced by what trains them together."""
        from torch import nn  # noqa: PLC0415 - it looks for its core when imported

        sizes = [COLUMNS, *hidden]
        layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
        self.module: Any = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))

    def train(self, batches: Iterator[tuple[Any, Any]], worker: Worker) -> None:
        """Makes an update of each batch of tensors, and has the worker note them."""
        from torch import optim  # noqa: PLC0415

        optimizer, loss = optim.SGD(self.module.parameters(), lr=0.01), None
        for x, y in batches:
            optimizer.zero_grad()
            loss = ((self.module(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            worker.updated()
        worker.end(float("nan") if loss is None else loss.item())


def _read(files: list[Path]) -> Iterator[tuple[Any, Any]]:
    for file in files:
        for batch in pq.ParquetFile(file, memory_map=True).iter_batches(READ_ROWS):
            x = np.empty((batch.num_rows, COLUMNS), np.float32)
            for i in range(COLUMNS):
                x[:, i] = batch.column(i).to_numpy()
            yield x, np.array(batch.column(COLUMNS))[:, None]


def _cut(large: Iterator[tuple[Any, Any]], share: int) -> Iterator[tuple[Any, Any]]:
    """Cuts large batches to shares; what is left over of one goes before the next."""
    rest_x, rest_y = np.empty((0, COLUMNS), np.float32), np.empty((0, 1), np.float32)
    for x, y in large:
        begin = (share - len(rest_x)) % share
        if begin:
            rest_x, rest_y = np.concatenate([rest_x, x[:begin]]), np.concatenate([rest_y, y[:begin]])
            if len(rest_x) < share:
                continue
            yield rest_x, rest_y
        end = begin + (len(x) - begin) // share * share
        for i in range(begin, end, share):
            yield x[i : i + share], y[i : i + share]
        rest_x, rest_y = x[end:], y[end:]
