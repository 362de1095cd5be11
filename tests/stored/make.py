"""Writes the stored runs anew, by the product and the tests that PYTHONPATH names: see README.md beside it."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from integration.application import Application
from integration.processes import wait_for
from integration.rows import job, write_rows
from integration.sandbox import Sandbox

ROOT = Path("/tmp/stored-runs")
"""Where they are trained, so what they say of themselves."""
DAYS = ("2026-11-01", "2026-11-02")
CUT_OFF: dict[str, dict[str, Any]] = {
    "sync": {"workers": 2},
    "async": {"strategy": "parameter_server", "workers": 1, "ps": 1},
}
EVERY, HOLD_AT = 10, 13
"""A checkpoint is committed at this step; each trainer waits in this update of its own, until it is killed."""
MODIFIED_S = 1.7e9
"""When the lake's files were written, as plans say."""
_UNREAD = ("tensorboard", "logs", "report.html", "index.html", "hold", "held-*.json")
"""What only people read, and what no run reads that goes on."""


def configuration(name: str, **sections: Any) -> dict[str, Any]:
    found = job(ROOT / "lake", ROOT / "runs", "cases.watched:build", name=name)
    return {**found, "train": {"epochs": 2, "batch_size": 10}, "checkpoint": {"every_steps": EVERY}, **sections}


def publish(sandbox: Sandbox) -> None:
    """Trains a night after the other, and publishes each."""
    application = Application(sandbox, "local[3]")
    for day in DAYS:
        config = configuration("nightly", cluster={"workers": 1}, train={"batch_size": 60}, publish={"date": day})
        config["output"] |= {"history": True}
        assert application.train(config, day).done.extra["published"]
    application.close()


def cut_off(sandbox: Sandbox, name: str, cluster: dict[str, Any]) -> None:
    """Kills a run in the middle of its first epoch, after a commit."""
    books = ROOT / "books" / name
    books.mkdir(parents=True)
    (books / "hold").touch()
    application = Application(sandbox, "local[3]")
    params = {"books": str(books), "hold_at": HOLD_AT}
    application.begin(configuration(name, cluster=cluster, params=params), "r")
    try:
        wait_for("a commit", lambda: [*ROOT.glob(f"runs/{name}/r/checkpoints/step-*/MANIFEST.json")], within_s=120)
    finally:
        application.family.kill()
        application.close()


def write(folder: Path) -> None:
    """Trains all of them below ROOT; the applications have another folder for themselves."""
    for path in write_rows(ROOT / "lake", (100, 50, 90), group_rows=50).iterdir():
        os.utime(path, (MODIFIED_S, MODIFIED_S))
    publish(Sandbox(folder / "nightly"))
    for name, cluster in CUT_OFF.items():
        cut_off(Sandbox(folder / name), name, cluster)


def is_read(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if any(fnmatch(Path(member.name).name, name) for name in _UNREAD) else member


def keep() -> None:
    """Packs what is read again of the runs, with their empty folders, into an archive beside this script."""
    # By the numbers of processes that no trainer has: those that go on with the runs note their own.
    for name in CUT_OFF:
        for i, log in enumerate(sorted(ROOT.glob(f"books/{name}/ids-*"))):
            log.rename(log.with_name(f"ids-{i}.jsonl"))
    with tarfile.open(Path(__file__).parent / "runs.tar.xz", "w:xz") as archive:
        for name in ("lake", "runs", "books"):
            archive.add(ROOT / name, name, filter=is_read)


if __name__ == "__main__":
    ROOT.mkdir()
    try:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder))
        keep()
    finally:
        shutil.rmtree(ROOT)
