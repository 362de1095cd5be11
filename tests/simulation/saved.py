"""A simulated node's checkpoints: what holds their content, writes and stores it, around the product's `Saves`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulation.evaluating import as_files
from simulation.hub import PeerLostError, Waiter

from sparktf.errors import NotStoredError, SparkTFError, StorageError
from sparktf.knobs import KNOBS
from sparktf.rundir import RunDirectory, checkpoint_name
from sparktf.storage.base import Storage
from sparktf.trainer.node.position import Done, Position
from sparktf.wire.control import Action
from sparktf.wire.restore import Restore
from sparktf.wire.uploads import StagedFile, Uploaded

if TYPE_CHECKING:
    from simulation.nodes import Trainer, Weighty


class SimCheckpoint:
    """See `Checkpoint`.

    Attributes:
        files: What was written last, of this node's own.
    """

    def __init__(self, weights: Weighty | None) -> None:
        """Takes whose content it holds; None where nobody reads what this node writes."""
        self.files: dict[str, bytes] = {}
        self._weights = weights

    def write(self, folder: Path) -> tuple[str, ...]:
        """See `Checkpoint`."""
        del folder
        self.files = {} if self._weights is None else {**as_files(self._weights.content), "optimizer": b"o" * 10}
        return ()

    def upload(self, message: Uploaded) -> None:
        """See `Checkpoint`."""

    def settle(self) -> str:
        """See `Checkpoint`."""
        return ""

    def restore(self, storage: Storage, source: Restore, work: Path) -> None:
        """See `Checkpoint`. Its trainer has read it before."""


class SimWriter:
    """What `CheckpointWriter` does, with files in memory; whatever that waits for or raises, this does."""

    took_s = 0.0

    def __init__(self, trainer: Trainer, rundir: RunDirectory) -> None:
        """Has written nothing."""
        self._trainer = trainer
        self._process = trainer.process
        self._rundir = rundir
        self._upload: Waiter | None = None
        self._is_uploading = False
        self._not_stored: StorageError | None = None
        self._error: Exception | None = None

    def save(self, checkpoint: Any, position: Position, done: Done, *, last: bool) -> None:
        """See `CheckpointWriter`."""
        if last:
            self._join()
        late = not self._wait_for_upload(KNOBS.last_upload_s)
        if not late:
            self._join()
        others = checkpoint.write(Path())
        message = Uploaded(
            **self._trainer.spec.sender,
            step=position.step,
            epoch=position.next_epoch,
            done=tuple(done.intervals),
            rows_aside=done.rows_aside,
            in_doubt=done.in_doubt,
            of_all=done.of_all,
            keras="keras",
            others=others,
        )
        if late:
            error = "the upload before was still under way" if self._trainer.leads else ""
            self._not_stored = StorageError(error) if error else None
            self._tell(message.model_copy(update={"error": error}))
            return
        self._not_stored = None
        checkpoint.upload(message)
        self._is_uploading = True
        self._process.spawn(lambda: self._store(checkpoint, dict(checkpoint.files), message))

    def wait(self) -> None:
        """See `CheckpointWriter`."""
        self._join()
        if self._not_stored is not None:
            raise NotStoredError(f"the last checkpoint could not be stored: {self._not_stored}")

    def _join(self) -> None:
        if not self._wait_for_upload(self._trainer.spec.config.timeouts.upload):
            raise NotStoredError("a checkpoint's upload took longer than timeouts.upload")
        if self._error is not None:
            raise self._error

    def _wait_for_upload(self, limit_s: float) -> bool:
        if not self._is_uploading:
            return True
        self._upload = Waiter(self._process)
        return self._process.wait(self._upload, limit_s)

    def _store(self, checkpoint: Any, files: dict[str, bytes], message: Uploaded) -> None:
        said: dict[str, Any] = {}
        try:
            if files and self._trainer.leads:
                said = self._stored(files, message)
            self._tell(message.model_copy(update=said))
            if error := checkpoint.settle():
                self._not_stored = StorageError(error)
        except (SparkTFError, PeerLostError) as error:
            self._error = error
        self._is_uploading = False
        if self._upload is not None:
            self._upload.wake(True)

    def _tell(self, message: Uploaded) -> None:
        if self._trainer.leads or not message.of_all:
            self._trainer._send(Action.UPLOADED, message)

    def _stored(self, files: dict[str, bytes], message: Uploaded) -> dict[str, Any]:
        spec = self._trainer.spec
        name = spec.upload_name(checkpoint_name(message.step))
        folder = self._rundir.staged(spec.attempt, name)
        try:
            return {"files": put(self._trainer, self._trainer._storage, folder, files), "folder": name}
        except StorageError as error:
            self._not_stored = error
            return {"error": str(error)}


def staged_at(rundir: RunDirectory, message: Uploaded) -> str:
    """Returns where the files of a checkpoint are uploaded to."""
    return rundir.staged(message.attempt, checkpoint_name(message.step))


def put(trainer: Trainer, storage: Storage, folder: str, files: Mapping[str, bytes]) -> tuple[StagedFile, ...]:
    """Stores files, which may arrive torn; returns what they were."""
    for name, content in files.items():
        arrives = content
        trainer.line.stores(trainer, f"{folder}/{name}")
        if chance := trainer.line.faults.strike("upload-torn", f"{trainer.process}: {folder}/{name} arrives torn"):
            trainer.line.hit(trainer.process, "torn")
            arrives = content[:-1] if chance.random() < 0.3 else content[:-1] + bytes([content[-1] ^ 1])
        storage.write_bytes(f"{folder}/{name}", arrives)
    return tuple(
        StagedFile(name=name, nbytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        for name, content in files.items()
    )
