"""Published models for tests: runs of one name that are done, and a reader of what they publish."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.stored_plan import data_read, save_plan
from sparktf.errors import Verdict
from sparktf.published.release import Release
from sparktf.published.serving import ModelManifest, Published, Serving
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.local import LocalStorage
from sparktf.storage.transactions.checkpoints import MANIFEST, FileManifest, read_manifest
from sparktf.wire.uploads import StagedFile

NOW_S = 1.7e9
DAYS = ("2026-11-19", "2026-11-20", "2026-11-21")
MODEL = {
    "saved_model/saved_model.pb": "graph",
    "saved_model/variables/variables.index": "index",
    "model.keras": "keras",
    "assets.json": "{}",
}


class Lab:
    """Runs of one name that are done, their published models, and a reader of these."""

    def __init__(self, root: Path, plan: Plan) -> None:
        self.root = str(root)
        self.serving = Serving(LocalStorage(), self.root, "t")
        self._plan = plan
        self._runs = 0

    def copy(self, root: Path) -> Lab:
        """Returns another with the same published models."""
        copied = Lab(root, self._plan)
        shutil.copytree(self.serving.path, copied.serving.path, copy_function=os.link)
        return copied

    def run(self, run_id: str, date: str = DAYS[0], **result: Any) -> RunDirectory:
        """Writes what a run leaves that is done."""
        storage, rundir = LocalStorage(), RunDirectory(self.root, "t", run_id)
        files = []
        for name, content in MODEL.items():
            text = f"{content} of {run_id}".encode()
            storage.write_bytes(f"{rundir.model}/{name}", text)
            files.append(StagedFile(name=name, nbytes=len(text), sha256=hashlib.sha256(text).hexdigest()))
        manifest = FileManifest(files=tuple(files))
        storage.write_bytes(f"{rundir.model}/{MANIFEST}", manifest.model_dump_json().encode())
        save_plan(self._plan, storage, rundir.plan)
        storage.write_bytes(rundir.config, f"name: t\npublish: {{date: '{date}'}}\n".encode())
        values: dict[str, Any] = {"run_id": run_id, "name": "t", "verdict": Verdict.DONE, "model": rundir.model}
        values |= {"started": f"{DAYS[0]}T02:00:00+00:00", "metrics": {"validation": {"accuracy": 0.5}}, **result}
        storage.write_bytes(rundir.result, RunResult.model_validate(values).model_dump_json().encode())
        for name in ("beat", "released"):
            storage.write_bytes(f"{rundir.term(1)}/{name}", b"")
        self._runs += 1
        os.utime(rundir.result, (NOW_S + self._runs, NOW_S + self._runs))
        return rundir

    def publish(
        self,
        run_id: str,
        date: str = DAYS[0],
        storage: Storage | None = None,
        check_owner: Callable[[], None] = lambda: None,
    ) -> Published:
        """Publishes as a driver does whose calls go through a storage."""
        rundir = RunDirectory(self.root, "t", run_id)
        if not os.path.exists(rundir.path):
            self.run(run_id, date)
        through = storage or LocalStorage()
        result = RunResult.model_validate_json(Path(rundir.result).read_bytes())
        release = Release(through, rundir, result, date, NOW_S, partial(data_read, through, rundir.plan))
        return Serving(through, self.root, "t").publish(release, check_owner)

    def night(self, run_id: str, storage: Storage) -> None:
        """Publishes, and prunes."""
        self.publish(run_id, storage=storage)
        Serving(storage, self.root, "t").prune(3)

    def seen(self) -> tuple[int, str] | None:
        """Is a reader: returns the current version, whole, and whose it is; what it reads must be as promised."""
        number = self.serving.current()
        if number is None:
            return None
        folder = f"{self.serving.path}/{number}"
        manifest = read_manifest(LocalStorage(), folder, ModelManifest)
        assert Path(folder, "saved_model.pb").read_text(encoding="utf-8") == f"graph of {manifest.run_id}"
        for other in self.in_sight():
            read_manifest(LocalStorage(), f"{self.serving.path}/{other}", ModelManifest)
        return number, manifest.run_id

    def in_sight(self) -> list[int]:
        """Returns what TensorFlow Serving sees: the folders whose names are numbers."""
        return sorted(int(name) for name in os.listdir(self.serving.path) if name.isdecimal())

    def runs_of_versions(self) -> dict[int, str]:
        return {v.number: self.serving.manifest(v).run_id for v in self.serving.versions()}

    def left_over(self) -> list[str]:
        return sorted(name for name in os.listdir(self.serving.path) if name.startswith("_"))
