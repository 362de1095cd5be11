"""Readers of published models and predictions in a store, who look again and again while a test changes them."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from sparktf.errors import StorageError, StorageNotFoundError, TornCheckpointError
from sparktf.published.serving import CURRENT, ModelManifest, Serving
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.transactions.checkpoints import read_manifest
from sparktf.storage.transactions.partition import MARKER, Marker


class StoreReaders:
    """Looks again and again, as sparktf does, as TensorFlow Serving does, and as those do who wait for predictions.

    Attributes:
        wrong: Findings that nobody may have.
        looks: Number of them that the server has answered.
        scores: Version of the model and number of rows of each change of the predictions.
    """

    def __init__(self, systems: FileSystems, root: str, day: str | None = None, pause_s: float = 0.0) -> None:
        """`day` is the folder of a day's predictions; `pause_s` comes before each look."""
        self.wrong: list[str] = []
        self.looks = 0
        self.scores: list[tuple[str, int]] = []
        self._day = day
        self._pause_s = pause_s
        self._ended = threading.Event()
        self._runs = systems.open_runs(root, deadline_s=0.5)
        self._serving = Serving(self._runs, root, "t")
        self._plain = systems.open(root, deadline_s=0.5)
        looks = (self._ours, self._others, *((self._predictions,) if day else ()))
        self._threads = [threading.Thread(target=self._follow, args=(look,)) for look in looks]

    def __enter__(self) -> StoreReaders:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _follow(self, look: Callable[[], None]) -> None:
        while not self._ended.wait(self._pause_s):
            try:
                look()
                self.looks += 1
            except StorageNotFoundError as error:
                self.wrong.append(f"gone: {error}")
            except StorageError:
                pass  # the server is away

    def _ours(self) -> None:
        number = self._serving.current()
        if number is not None:
            version = next((v for v in self._serving.versions() if v.number == number), None)
            if version is None:
                if self._serving.current() == number:
                    self.wrong.append(f"{CURRENT} names {number}, and it is not there")
                return
            with suppress(StorageNotFoundError):
                read_manifest(self._runs, version.folder, ModelManifest)

    def _others(self) -> None:
        """Finds every version whole that has the file by which it is loaded, and the one that `CURRENT` names."""
        try:
            text = self._plain.read_bytes(f"{self._serving.path}/{CURRENT}").decode().strip()
        except StorageNotFoundError:
            return
        there = {entry.path for entry in self._plain.walk(self._serving.path)}
        loaded = {path.removesuffix("/saved_model.pb") for path in there if path.endswith("/saved_model.pb")}
        for folder in loaded:
            self._check_whole(folder)
        if f"{self._serving.path}/{text}" not in loaded:
            now = self._plain.read_bytes(f"{self._serving.path}/{CURRENT}").decode().strip()
            if now == text:
                self.wrong.append(f"{CURRENT} names {text}, and there are {sorted(loaded)}")

    def _predictions(self) -> None:
        """Finds the files that count, which are of one version of the model."""
        try:
            before = self._marker()
        except StorageNotFoundError:
            return
        try:
            found = pa.concat_tables(self._table(name) for name in before.files) if before.files else None
        except StorageNotFoundError as error:
            if self._marker() == before:
                self.wrong.append(f"gone: {error}")
            return
        if found is None:
            return
        versions = set(found["model_version"].to_pylist())
        if versions != {before.version}:
            self.wrong.append(f"predictions of {before.version} are of {versions}")
        if (told := (before.version, found.num_rows)) not in self.scores[-1:]:
            self.scores.append(told)

    def _marker(self) -> Marker:
        return Marker.model_validate_json(self._plain.read_bytes(f"{self._day}/{MARKER}"))

    def _table(self, name: str) -> pa.Table:
        return pq.read_table(io.BytesIO(self._plain.read_bytes(f"{self._day}/{name}")))

    def _check_whole(self, folder: str) -> None:
        """Takes a version for whole as long as the file is there by which it is loaded."""
        try:
            read_manifest(self._plain, folder, ModelManifest)
        except TornCheckpointError as error:
            if self._plain.exists(f"{folder}/saved_model.pb"):
                self.wrong.append(str(error))
