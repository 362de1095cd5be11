"""The run directory: the one class that knows where everything of a run is."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STEP = re.compile(r"^step-(\d{12})$")


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Paths of one run: `<root>/<name>/<run_id>/...`, on any file system of `sparktf.storage`."""

    root: str
    name: str
    run_id: str

    @property
    def path(self) -> str:
        return f"{self.root.rstrip('/')}/{self.name}/{self.run_id}"

    @property
    def config(self) -> str:
        return f"{self.path}/config.yaml"

    @property
    def assets(self) -> str:
        return f"{self.path}/assets.json"

    @property
    def plan(self) -> str:
        return f"{self.path}/plan"

    @property
    def events(self) -> str:
        return f"{self.path}/events"

    @property
    def tensorboard(self) -> str:
        return f"{self.path}/tensorboard"

    @property
    def logs(self) -> str:
        return f"{self.path}/logs"

    def bad_rows(self, attempt: int, node: str) -> str:
        """Where a node ("worker 1") writes the rows that it sets aside."""
        return f"{self.path}/bad_rows/{attempt:03d}-{node.replace(' ', '-')}.jsonl"

    @property
    def result(self) -> str:
        return f"{self.path}/result.json"

    @property
    def owners(self) -> str:
        """The applications that have fenced the run, the last one last."""
        return f"{self.path}/owners.json"

    @property
    def model(self) -> str:
        return f"{self.path}/model"

    @property
    def checkpoints(self) -> str:
        return f"{self.path}/checkpoints"

    @property
    def staging(self) -> str:
        """Where uploads lie until they are committed; readers never look here."""
        return f"{self.checkpoints}/_tmp"

    def checkpoint(self, step: int) -> str:
        return f"{self.checkpoints}/step-{step:012d}"

    def staged(self, attempt: int, what: str) -> str:
        """Where one attempt uploads one checkpoint ("step-...") or the model ("model")."""
        return f"{self.staging}/{attempt:03d}-{what}"


def checkpoint_step(folder: str) -> int | None:
    """Returns the step of a checkpoint folder's name, or None if it is not one."""
    found = _STEP.match(folder)
    return int(found.group(1)) if found else None


def checkpoint_name(step: int) -> str:
    """Returns the folder name of the checkpoint at a step."""
    return f"step-{step:012d}"
