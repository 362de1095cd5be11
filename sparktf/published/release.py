"""A run's contribution to publishing: its exported model and its origin."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sparktf.errors import ModelContractError, StorageError, StorageNotFoundError, TornCheckpointError
from sparktf.published.serving import ModelManifest, Serving
from sparktf.results.gating import levels_after
from sparktf.results.result import RunResult
from sparktf.rundir import STATISTICS, RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.transactions.checkpoints import MANIFEST, FileManifest, parse_manifest
from sparktf.storage.transactions.leftovers import staged_name, sweep
from sparktf.wire.uploads import StagedFile

_STAGED = "_staged-"

_SAVED_MODEL = "saved_model/"


@dataclass(frozen=True)
class Release:
    """One run's model to publish; see `Candidate`."""

    storage: Storage
    rundir: RunDirectory
    result: RunResult
    date: str  # The model's day, as YYYY-MM-DD
    now_s: float  # Seconds since 1970
    read: Callable[[], Mapping[str, Any]]  # Returns the data that the run has read, by its plan: `plan_hash` and more
    mlmodel: Mapping[str, Any] = field(default_factory=dict)  # Content of a file `MLmodel`; empty for none

    @property
    def run_id(self) -> str:
        """Id of its run."""
        return self.rundir.run_id

    def stage(self, folder: str) -> str:
        """Copies it into a new folder below `folder`, with a `ModelManifest` written last; returns the new folder.

        The SavedModel's files are in the folder itself, where TensorFlow Serving looks for them.

        Raises:
            TornCheckpointError: the run's model, or the copy, does not match its manifest.
            StorageError: the storage failed.
        """
        sweep(self.storage, folder, (_STAGED,), self.now_s)
        staged = f"{folder}/{staged_name(_STAGED, self.run_id)}"
        try:
            self._fill(staged)
        except BaseException:  # Ctrl-C too: it may be a large model
            with suppress(StorageError):
                self.storage.delete(staged)
            raise
        return staged

    def _fill(self, staged: str) -> None:
        data = self.read()
        files = self._copy(staged)
        beside: dict[str, Any] = {"metrics.json": self.result.metrics, "data.json": data}
        if self.mlmodel:
            beside["MLmodel"] = self.mlmodel  # YAML, of which JSON is a part
        for name, content in beside.items():
            files.append(self._write(staged, name, json.dumps(content, indent=1, sort_keys=True).encode()))
        with suppress(StorageNotFoundError):  # of a run without data.checks
            files.append(self._write(staged, STATISTICS, self.storage.read_bytes(self.rundir.statistics)))
        manifest = ModelManifest(
            files=tuple(sorted(files, key=lambda file: file.name)),
            name=self.rundir.name,
            run_id=self.run_id,
            date=self.date,
            published=dt.datetime.fromtimestamp(self.now_s, dt.UTC).isoformat(timespec="seconds"),
            plan_hash=data["plan_hash"],
            steps=self.result.steps,
            full_date=self.result.carried.full_date if self.result.carried else self.date,
            levels=self._levels(),
        )
        self.storage.write_bytes(f"{staged}/{MANIFEST}", manifest.model_dump_json(indent=1).encode())

    def _levels(self) -> dict[str, float]:
        """Returns its levels, on one scale with the versions before it; nothing if it was not compared."""
        comparison = self.result.comparison
        if comparison is None:
            return {}
        serving = Serving(self.storage, self.rundir.root, self.rundir.name)
        before = comparison.champion_version
        champion = serving.until(before, 1) if before is not None else []
        known = champion[0][1].levels if champion and champion[0][0].number == before else {}
        return levels_after(known, comparison)

    def _copy(self, staged: str) -> list[StagedFile]:
        """Copies the run's model; returns the copies, which keep the trainer's checksums.

        Raises:
            TornCheckpointError: the copy of a file has another one.
        """
        model = self.rundir.model
        copies = []
        for file in parse_manifest(self.storage, model, FileManifest).files:
            copy = file.model_copy(update={"name": file.name.removeprefix(_SAVED_MODEL)})
            if self.storage.copy(f"{model}/{file.name}", f"{staged}/{copy.name}") != file.sha256:
                raise TornCheckpointError(f"{model}/{file.name}: the checksum differs")
            copies.append(copy)
        return copies

    def _write(self, staged: str, name: str, content: bytes) -> StagedFile:
        self.storage.write_bytes(f"{staged}/{name}", content)
        return StagedFile(name=name, nbytes=len(content), sha256=self.storage.checksum(f"{staged}/{name}"))


def release_of(
    storage: Storage,
    rundir: RunDirectory,
    result: RunResult,
    date: str | None,
    now_s: float,
    read: Callable[[], Mapping[str, Any]],
    mlmodel: Mapping[str, Any] | None = None,
) -> Release:
    """Returns the release of a run.

    Args:
        date: The model's day; None for today (UTC).
        read, mlmodel: See `Release`.

    Raises:
        ModelContractError: it has exported no model.
    """
    if not result.model:
        raise ModelContractError(
            f"run {rundir.name}/{rundir.run_id} has no model to publish: call node.export(model) in its train(node)"
        )
    today = dt.datetime.fromtimestamp(now_s, dt.UTC).date().isoformat()
    return Release(storage, rundir, result, date or today, now_s, read, mlmodel or {})
