"""Writes checkpoints locally and uploads them while training goes on; only the driver commits."""

from __future__ import annotations

import shutil
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from sparktf.errors import NotStoredError, StorageError
from sparktf.knobs import KNOBS
from sparktf.results.keep import EpochLoss
from sparktf.rundir import checkpoint_name
from sparktf.storage.transactions.checkpoints import upload_folder
from sparktf.trainer.node.checkpoint import Checkpoint
from sparktf.trainer.node.failure import LARGER_DISK, is_full_disk
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.position import Done, Position
from sparktf.wire.control import Action, Flavour
from sparktf.wire.uploads import Uploaded


class CheckpointWriter:
    """Writes and uploads one checkpoint at a time.

    Only the leader's files are kept. Over TensorFlow's collectives every node writes, since reading variables that are
    aggregated on read takes one; over sparktf's own the leader alone does. A failed upload does not end the training:
    the message of the upload reports it to the driver, so that all nodes stay in step. Only the last checkpoint must
    arrive.
    """

    took_s = 0.0  # The longest time of writing and storing a checkpoint

    def __init__(self, place: Place, keras: Flavour) -> None:
        self._place = place
        self._keras = keras
        self._upload: threading.Thread | None = None
        self._not_stored: StorageError | None = None
        self._error: Exception | None = None

    def save(self, checkpoint: Checkpoint, position: Position, done: Done, *, last: bool) -> None:
        """Writes the checkpoint locally, then hands it to the upload thread.

        Args:
            done: This node's part of the epoch that the checkpoint continues.
            last: The last one waits for the previous upload; any other is dropped if that takes too long.

        Raises:
            NotStoredError: the upload before the last took longer than `timeouts.upload`.
            ControlError: the previous upload could not be reported.
            tf.errors.OpError: a node that had to upload its files is lost.
        """
        if self._place.spec.outlives_losses and done.of_all and not self._place.leads:
            return
        began_s = time.monotonic()
        if last:
            self._join()
        elif self._upload is not None:
            self._upload.join(KNOBS.last_upload_s)
        late = self._upload is not None and self._upload.is_alive()
        if not late:
            self._join()
        folder = self._place.work / checkpoint_name(position.step)
        others, not_written = self._write(checkpoint, folder)
        message = Uploaded(
            **self._place.spec.sender,
            step=position.step,
            epoch=position.next_epoch,
            done=tuple(done.intervals),
            rows_aside=done.rows_aside,
            in_doubt=done.in_doubt,
            of_all=done.of_all,
            keras=self._keras,
            others=others,
            loss=EpochLoss() if position.is_complete else position.epoch_loss,
        )
        if late or not_written:
            shutil.rmtree(folder, ignore_errors=True)
            error = self._dropped(
                not_written or f"the previous upload to {self._place.rundir.staging} was still in progress"
            )
            self._tell(message.model_copy(update={"error": error}))
            return
        self._not_stored = None
        checkpoint.upload(message)
        send = partial(self._send, checkpoint, folder, message, began_s)
        self._upload = threading.Thread(target=send, name="upload", daemon=True)
        self._upload.start()

    def wait(self) -> None:
        """Waits until the last checkpoint is stored.

        Raises:
            NotStoredError: that failed, or took longer than `timeouts.upload`.
        """
        self._join()
        if self._not_stored is not None:
            raise NotStoredError(f"the last checkpoint could not be stored: {self._not_stored}") from self._not_stored

    def _join(self) -> None:
        """Waits for an upload in progress."""
        if self._upload is None:
            return
        limit = self._place.spec.config.timeouts.upload
        self._upload.join(limit)
        if self._upload.is_alive():
            raise NotStoredError(
                f"the upload of a checkpoint to {self._place.rundir.staging} took longer than timeouts.upload "
                f"({limit:g} s): raise it, or look at the storage"
            )
        self._upload = None
        if self._error is not None:
            raise self._error

    def _write(self, checkpoint: Checkpoint, folder: Path) -> tuple[tuple[str, ...], str]:
        """Writes the checkpoint locally; returns the files that others wrote, and an error, "" for none."""
        try:
            return checkpoint.write(folder), ""
        except StorageError as e:
            return (), str(e)
        except (tf.errors.OpError, OSError) as e:
            if not is_full_disk(e):
                raise
            return (), f"the executor's local disk is full: {folder} cannot be written; {LARGER_DISK}"

    def _send(self, checkpoint: Checkpoint, folder: Path, message: Uploaded, began_s: float) -> None:
        try:
            if self._place.leads:
                message = message.model_copy(update=self._store(folder, message.step))
            self._tell(message)
            if not_stored := checkpoint.settle():
                self._not_stored = StorageError(not_stored)
        except Exception as e:  # noqa: BLE001 - the end of a thread: the next `save` or `wait` raises it
            self._error = e
        finally:
            self.took_s = max(self.took_s, time.monotonic() - began_s)
            shutil.rmtree(folder, ignore_errors=True)

    def _tell(self, message: Uploaded) -> None:
        if self._place.leads or not message.of_all:  # else the leader tells of this node's rows, too
            self._place.send(Action.UPLOADED, message)

    def _store(self, folder: Path, step: int) -> dict[str, Any]:
        """Uploads the leader's files; returns the fields to report."""
        place, spec = self._place, self._place.spec
        name = spec.upload_name(checkpoint_name(step))
        target = place.rundir.staged(spec.attempt, name)
        try:
            return {"files": upload_folder(place.storage, folder, target), "folder": name}
        except StorageError as e:
            self._not_stored = e
            return {"error": str(e)}

    def _dropped(self, reason: str) -> str:
        """Notes and returns why the leader drops a checkpoint; "" on other nodes, whose files are never kept."""
        if not self._place.leads:
            return ""
        self._not_stored = StorageError(reason)
        return reason
