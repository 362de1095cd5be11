"""`sparktf tensorboard`: TensorBoard over the event files of runs, on any storage."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sparktf.clock import Clock
from sparktf.errors import PreflightError, StorageError, StorageNotFoundError
from sparktf.knobs import KNOBS
from sparktf.nightly import errand
from sparktf.rundir import RunDirectory
from sparktf.runs.finding import RunsRoot, find_run, is_name_of_runs, run_ids
from sparktf.storage.base import FileEntry, Storage
from sparktf.storage.file_systems import FileSystems

_URL = re.compile(r"\bat (https?://\S+)")
_REST = 10
"""Storage calls take a tenth of the time at most, however many runs there are."""

_KEPT_LINES = 20
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}


class Subject(NamedTuple):
    """The runs to show."""

    storage: Storage
    title: str  # Their name for people
    # Returns the folders of event files, by the local copy's name ("" for its root): later maybe more
    folders: Callable[[], dict[str, str]]


def find_subject(systems: FileSystems, run: str, output: RunsRoot | None) -> Subject:
    """Returns the run that `find_run` finds, or all runs of a name.

    Raises:
        ConfigError: there is no such run or name; names the nearest ones.
        StorageError: the storage failed.
    """
    if output is not None and is_name_of_runs(run, output):
        return Subject(output.storage, run, lambda: _of_name(output, run))
    found = find_run(systems, run, output)
    return Subject(found.storage, found.title, lambda: {"": found.rundir.tensorboard})


class EventFiles:
    """Local copies of event files, which follow the stored ones."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        """Copies nothing yet. `folder` is for the copies; unfinished ones are kept beside it."""
        self._subject = subject
        self._folder = folder
        self._aside = folder.with_name(f"{folder.name}-aside")

    def follow(self) -> int:
        """Fetches new bytes; returns how many.

        Raises:
            StorageError: the storage failed; the next call fetches the rest.
        """
        return sum(
            self._fetch(entry, self._folder / name / entry.path.removeprefix(folder).lstrip("/"))
            for name, folder in self._subject.folders().items()
            for entry in self._entries(folder)
        )

    def _entries(self, folder: str) -> Iterator[FileEntry]:
        try:
            yield from self._subject.storage.walk(folder)
        except StorageNotFoundError:
            return  # nothing is written yet, or nothing is left

    def _fetch(self, entry: FileEntry, local: Path) -> int:
        """Copies a new file, or appends the new bytes of a file that has grown; event files only grow."""
        has = local.stat().st_size if local.exists() else 0
        if entry.nbytes <= has:
            return 0
        try:
            if not has:
                self._subject.storage.download(entry.path, self._aside)
                local.parent.mkdir(parents=True, exist_ok=True)
                self._aside.replace(local)
            else:
                with self._subject.storage.open(entry.path) as stored, local.open("ab") as grown:
                    stored.seek(has)
                    shutil.copyfileobj(stored, grown)
        except StorageNotFoundError:
            return 0  # the run was deleted meanwhile
        return local.stat().st_size - has


class TensorBoard:
    """A TensorBoard process."""

    def __init__(self, folder: Path, flags: Sequence[str]) -> None:
        """Starts it. Raises `PreflightError` if this environment has none."""
        if importlib.util.find_spec("tensorboard") is None:
            raise PreflightError("TensorBoard is not installed: pip install tensorboard")
        own = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), *flags]
        self._lines: list[str] = []
        self._url = ""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", errand.__name__, str(os.getpid()), *own],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=errand.environment_of(_QUIET),
            text=True,
            process_group=0,
        )
        self._heard = threading.Event()
        self._reader = threading.Thread(target=self._read, name="tensorboard", daemon=True)
        self._reader.start()

    def url(self) -> str:
        """Returns its address, once it listens. Raises `PreflightError` with the reason if it has ended instead."""
        self._heard.wait()
        if not self._url:
            self.check(self._process.wait())
        return self._url

    def check(self, code: int | None = None) -> None:
        """Raises `PreflightError` if it has ended."""
        code = self._process.poll() if code is None else code
        if code is not None:
            said = next((line for line in reversed(self._lines) if line.strip()), "it has said nothing").strip()
            raise PreflightError(f"TensorBoard ended with exit code {code}: {said}")

    def stop(self) -> None:
        """Ends it."""
        self._process.terminate()
        try:
            self._process.wait(KNOBS.board_stop_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(KNOBS.last_output_s)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self._lines = [*self._lines[-_KEPT_LINES:], line]
                if found := _URL.search(line):
                    self._url = found[1]
                    self._heard.set()
        self._heard.set()


def show_board(subject: Subject, flags: Sequence[str], clock: Clock, say: Callable[[str], None]) -> None:
    """Shows runs in TensorBoard, and follows them until interrupted.

    Args:
        flags: TensorBoard's own.

    Raises:
        PreflightError: TensorBoard is missing, or has ended.
        StorageError: the storage failed at the start; later failures are waited out.
        KeyboardInterrupt: the process and the copies are removed.
    """
    with _folder() as folder:
        files = EventFiles(subject, folder)
        if not files.follow():
            say(f"{subject.title} has written nothing for TensorBoard yet: what comes is shown")
        board = TensorBoard(folder, flags)
        try:
            say(f"{subject.title}: {board.url()} (Ctrl-C ends it)")
            _keep_up(files, board, clock, say)
        finally:
            board.stop()


def _keep_up(files: EventFiles, board: TensorBoard, clock: Clock, say: Callable[[str], None]) -> None:
    complaint = ""
    while True:
        began_s = clock.now_s()
        try:
            files.follow()
            complaint = ""
        except (StorageError, OSError) as error:
            if str(error) != complaint:
                say(f"what is new is not shown for now: {error}")
            complaint = str(error)
        clock.sleep(max(KNOBS.follow_s, _REST * (clock.now_s() - began_s)))
        board.check()


@contextmanager
def _folder() -> Iterator[Path]:
    above = Path(tempfile.mkdtemp(prefix="sparktf-tensorboard-"))
    try:
        (folder := above / "runs").mkdir()
        yield folder
    finally:
        shutil.rmtree(above, ignore_errors=True)


def _of_name(output: RunsRoot, name: str) -> dict[str, str]:
    runs = run_ids(output.storage, output.root, name)
    return {run: RunDirectory(output.root, name, run).tensorboard for run in runs}
