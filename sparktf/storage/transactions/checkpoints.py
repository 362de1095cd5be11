"""The commit protocol of checkpoints and models, over any `Storage`.

A checkpoint exists only if its manifest verifies: every file it lists is there, with its size and checksum. Trainers
upload files into a staging folder (`upload_folder`); the driver alone commits, through one `CheckpointStore`:

    _tmp/<attempt>-<what>/         trainers upload here; the manifest is written last
      -- rename -->  ../_commit-<attempt>-<nonce>/<what>/    the fence; verified here, where no upload reaches it
      -- rename -->  step-<12 digits>/                       visible, whole

One committer, one fence (`sparktf.storage.transactions.fence`): a cut-off committer's next rename fails, wherever it
had got to; late uploads of a trainer stay in `_tmp` and are never looked at. Readers skip names with "_" first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError, field_validator

from sparktf.errors import (
    FencedOffError,
    StorageError,
    StorageExistsError,
    StorageNotFoundError,
    TornCheckpointError,
)
from sparktf.message import Message
from sparktf.rundir import RunDirectory, checkpoint_step
from sparktf.sequence import Cursor
from sparktf.storage.base import Storage, name_of, sha256_of
from sparktf.storage.local import storage_errors
from sparktf.storage.transactions.fence import Fence
from sparktf.told import log_of
from sparktf.wire.control import Flavour
from sparktf.wire.uploads import StagedFile

MANIFEST = "MANIFEST.json"

ReportSkipped = Callable[[str, str], None]
"""Called with a path and the reason why it was skipped or left."""

_log = log_of(__name__)


class FileManifest(Message):
    """The files that make a published folder whole."""

    files: tuple[StagedFile, ...]

    @field_validator("files")
    @classmethod
    def _stay_inside(cls, files: tuple[StagedFile, ...]) -> tuple[StagedFile, ...]:
        # Names come from trainers and from storage, and are joined to paths that are read.
        for name in (file.name for file in files):
            if any(part in ("", ".", "..") for part in name.split("/")) or name == MANIFEST:
                raise ValueError(f"{name!r} is not the name of a file below the folder")
        return files

    def belongs_in(self, folder: str) -> bool:
        """Whether the manifest may be in a folder of this name."""
        return True


class Manifest(FileManifest):
    """The description of a checkpoint."""

    step: int = Field(ge=0, lt=10**12)
    epoch: int
    cursor: Cursor  # Position in the train stream
    rows_trained: int  # Rows trained over the run up to this step, in all epochs
    config_hash: str
    plan_hash: str
    keras: Flavour  # The Keras that wrote it
    versions: dict[str, str]  # Package -> version
    created: str  # ISO 8601
    extra: dict[str, Any] = {}  # JSON-able, for the caller

    def belongs_in(self, folder: str) -> bool:
        return checkpoint_step(folder) == self.step


_M = TypeVar("_M", bound=FileManifest)


def upload_folder(storage: Storage, local: Path, target: str) -> tuple[StagedFile, ...]:
    """Uploads all files below a local folder, as a trainer does; returns them sorted by name.

    The checksums are of the local files, so that a commit detects errors of the upload.

    Raises:
        StorageNotFoundError: `local` is not a folder.
        StorageError: a file could not be uploaded; the fence sweeps the others.
    """
    if not local.is_dir():
        raise StorageNotFoundError(f"cannot upload {local}: not a folder")
    paths, staged = sorted(found for found in local.rglob("*") if found.is_file()), []
    with ThreadPoolExecutor(1, thread_name_prefix="checksum") as beside:  # of the next file, while one is sent
        checksums = [beside.submit(_checksum_of, path) for path in paths]
        try:
            for path, checksum in zip(paths, checksums, strict=True):
                name, sha256 = path.relative_to(local).as_posix(), checksum.result()
                storage.upload_as(path, f"{target}/{name}", sha256)
                staged.append(StagedFile(name=name, nbytes=path.stat().st_size, sha256=sha256))
        finally:
            beside.shutdown(cancel_futures=True)
    return tuple(sorted(staged, key=lambda file: file.name))


def _checksum_of(path: Path) -> str:
    with storage_errors("read", str(path)), path.open("rb") as stream:
        return sha256_of(stream)


def verify_files(storage: Storage, folder: str, files: Sequence[StagedFile]) -> None:
    """Checks that the files lie in the folder: all sizes first, which is cheap, then the checksums.

    Raises:
        TornCheckpointError: a file is missing or differs; names it.
    """
    known = storage.fingerprints(folder)
    if known is not None and all(known.get(file.name, ("", ""))[1] for file in files):
        _compare(folder, files, known)
        return
    try:
        for file in files:
            found = storage.stat(f"{folder}/{file.name}")
            if found.is_dir or found.nbytes != file.nbytes:
                raise TornCheckpointError(f"{found.path}: {found.nbytes} bytes instead of {file.nbytes}")
        for file in files:
            if storage.checksum(f"{folder}/{file.name}") != file.sha256:
                raise TornCheckpointError(f"{folder}/{file.name}: the checksum differs")
    except StorageNotFoundError as error:
        raise TornCheckpointError(f"a file is missing: {error}") from error


def _compare(folder: str, files: Sequence[StagedFile], known: Mapping[str, tuple[int, str]]) -> None:
    for file in files:
        nbytes, sha256 = known[file.name]
        if nbytes != file.nbytes:
            raise TornCheckpointError(f"{folder}/{file.name}: {nbytes} bytes instead of {file.nbytes}")
        if sha256 != file.sha256:
            raise TornCheckpointError(f"{folder}/{file.name}: the checksum differs")


def read_manifest(storage: Storage, folder: str, kind: type[_M]) -> _M:
    """Returns the manifest of a published folder, if the folder is whole.

    Raises:
        TornCheckpointError: the manifest is missing, does not parse or does not belong there, or a file differs.
    """
    manifest = parse_manifest(storage, folder, kind)
    verify_files(storage, folder, manifest.files)
    return manifest


def parse_manifest(storage: Storage, folder: str, kind: type[_M]) -> _M:
    """Returns the manifest of a published folder, without a check of the files.

    Raises:
        TornCheckpointError: it is missing, does not parse or does not belong there.
    """
    path = f"{folder}/{MANIFEST}"
    try:
        manifest = kind.model_validate_json(storage.read_bytes(path))
    except StorageNotFoundError as error:
        raise TornCheckpointError(f"no manifest: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise TornCheckpointError(f"{path} is not a manifest: {where or 'content'}: {first['msg']}") from error
    if not manifest.belongs_in(name_of(folder)):
        raise TornCheckpointError(f"{path} is the manifest of another folder")
    return manifest


class CheckpointStore:
    """The checkpoints of one run. Reading needs no fence; `commit` and `publish` are for the driver, in one thread.

    Attributes:
        fence: Used for commits, once it is acquired.
    """

    def __init__(
        self,
        storage: Storage,
        rundir: RunDirectory,
        keep: int,
        *,
        fence: Fence | None = None,
        on_torn: ReportSkipped | None = None,
        on_not_pruned: ReportSkipped | None = None,
    ) -> None:
        """Opens the store; touches nothing.

        Args:
            keep: The number of checkpoints that stay, at least 1.
            fence: Default: one of its own.
            on_torn: Called for each torn checkpoint that is skipped or replaced. Default: the log.
            on_not_pruned: Called when old checkpoints could not be removed. Default: the log.

        Raises:
            ValueError: `keep` is less than 1.
        """
        if keep < 1:
            raise ValueError(f"keep = {keep}: at least the newest checkpoint must stay")
        self._storage = storage
        self._rundir = rundir
        self._keep = keep
        self._on_torn = on_torn or _warn_torn
        self._on_not_pruned = on_not_pruned or _warn_not_pruned
        self.fence = fence or Fence(storage, rundir)

    def commit(
        self,
        manifest: Manifest,
        staged: str,
        *,
        best: int | None = None,
        release: Callable[[Sequence[int]], Sequence[int]] = tuple,
    ) -> str:
        """Makes a staged folder the checkpoint at `manifest.step`, then prunes; returns the checkpoint's folder.

        A torn checkpoint in its place is reported and replaced. If it fails, nothing of the staged folder stays.

        Args:
            best: Step of a checkpoint that stays beside the newest ones.
            release: Returns which of these outdated steps' checkpoints may be removed now.

        Raises:
            LifecycleError: the fence was not acquired.
            TornCheckpointError: a staged file is missing or differs; names it.
            StorageExistsError: there is a whole checkpoint at this step.
            FencedOffError: a newer committer owns the run; nothing of it has changed.
            StorageError: the storage failed.
        """
        target = self._rundir.checkpoint(manifest.step)
        self._commit_folder(manifest, staged, target, partial(self._put_in_place, kind=Manifest))
        self.prune(manifest.step, best=best, release=release)
        return target

    def prune(
        self, committed: int, *, best: int | None = None, release: Callable[[Sequence[int]], Sequence[int]] = tuple
    ) -> None:
        """Removes checkpoints that are outdated after the one at `committed`; see `commit`.

        Those that cannot be removed are reported: the commit stands in any case, and the next one tries again.
        """
        try:
            self._prune(committed, best, release)
        except StorageError as error:
            self._on_not_pruned(self._rundir.checkpoints, str(error))

    def commit_model(self, files: Sequence[StagedFile], staged: str, target: str) -> None:
        """Makes a staged folder appear as `target` (a model), whole, with a `FileManifest` beside the files.

        An earlier model, of a submission cut off before its result, is removed only after the new one is verified.

        Raises:
            LifecycleError: the fence was not acquired.
            ValueError: a file's name leads out of the folder.
            TornCheckpointError: a staged file is missing or differs; names it.
            FencedOffError: a newer committer owns the run; its model is as it was.
            StorageError: the storage failed.
        """
        self._commit_folder(FileManifest(files=tuple(files)), staged, target, self.fence.replace)

    def list(self) -> tuple[int, ...]:
        """Returns the steps that have a checkpoint folder, whole or not, oldest first. Raises `StorageError`."""
        return steps_in(self._storage, self._rundir.checkpoints)

    def latest(self) -> tuple[Manifest, str] | None:
        """Returns the newest checkpoint that is whole, and its folder; torn ones are reported and skipped.

        Raises:
            StorageError: the storage failed (which does not make a checkpoint torn).
        """
        for step in reversed(self.list()):
            folder = self._rundir.checkpoint(step)
            try:
                return read_manifest(self._storage, folder, Manifest), folder
            except TornCheckpointError as error:
                if not self._storage.exists(folder):
                    # Pruned while it was read, so there is a newer one.
                    return self.latest()
                self._on_torn(folder, str(error))
        return None

    def at(self, step: int) -> tuple[Manifest, str] | None:
        """Returns the checkpoint at a step, and its folder; None if there is none, or a torn one, which is reported.

        Raises:
            StorageError: the storage failed.
        """
        folder = self._rundir.checkpoint(step)
        if not self._storage.exists(folder):
            return None
        try:
            return read_manifest(self._storage, folder, Manifest), folder
        except TornCheckpointError as error:
            self._on_torn(folder, str(error))
            return None

    def _commit_folder(
        self, manifest: FileManifest, staged: str, target: str, put_in_place: Callable[[str, str], None]
    ) -> None:
        with self.fence.guarded() as fence:
            held = f"{fence}/{name_of(target)}"
            try:
                # Before the rename into the fence: writing makes folders, and inside it that would mend a cut one.
                self._storage.write_bytes(f"{staged}/{MANIFEST}", manifest.model_dump_json(indent=2).encode())
                self._storage.rename(staged, held)
                verify_files(self._storage, held, manifest.files)
                self._storage.make_dirs(_parent(target))
                put_in_place(held, target)
            except (StorageError, FencedOffError):
                self.fence.discard(staged, held)
                raise

    def _put_in_place(self, held: str, target: str, kind: type[FileManifest]) -> None:
        try:
            self._storage.rename(held, target)
        except StorageExistsError:
            self._remove_if_torn(target, kind)
            self._storage.rename(held, target)

    def _remove_if_torn(self, target: str, kind: type[FileManifest]) -> None:
        """Removes a torn folder; a whole one stays, and makes the rename that follows fail."""
        try:
            read_manifest(self._storage, target, kind)
        except TornCheckpointError as error:
            self._on_torn(target, str(error))
            self._remove(target)

    def _prune(self, committed: int, best: int | None, release: Callable[[Sequence[int]], Sequence[int]]) -> None:
        # Newer ones than the committed are torn (the run would have resumed from them), so they do not count.
        older = [step for step in self.list() if step < committed and step != best]
        for step in release(older[: max(len(older) - (self._keep - 1), 0)]):
            self._remove(self._rundir.checkpoint(step))

    def _remove(self, folder: str) -> None:
        """Hides a folder in one step, so that no reader sees half of it, then deletes it."""
        if (removed := self.fence.take_in(folder)) is not None:
            self._storage.delete(removed)


def steps_in(storage: Storage, folder: str) -> tuple[int, ...]:
    """Returns the steps that a folder of checkpoints has; see `CheckpointStore.list`."""
    try:
        folders = [entry for entry in storage.list(folder) if entry.is_dir]
    except StorageNotFoundError:
        return ()
    steps = (checkpoint_step(name_of(found.path)) for found in folders)
    return tuple(sorted(step for step in steps if step is not None))


def _parent(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0]


def _warn_torn(path: str, reason: str) -> None:
    _log.warning("skipped torn checkpoint %s: %s", path, reason)


def _warn_not_pruned(path: str, reason: str) -> None:
    _log.warning("old checkpoints stay in %s: %s", path, reason)
