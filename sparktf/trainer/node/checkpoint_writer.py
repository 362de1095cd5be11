"""Checkpoints from a trainer's side: written locally, uploaded beside training, committed by the driver alone."""

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

    Every node writes, since variables aggregated on reading take a collective; only the leader's files are kept. An
    upload that fails does not end the training: the driver is told, on the commit's own way, so that all nodes stay in
    step. Only the last checkpoint has to arrive.

    Attributes:
        took_s: How long writing and storing one took at most.
    """

    took_s = 0.0

    def __init__(self, place: Place, keras: Flavour) -> None:
        self._place = place
        self._keras = keras
        self._upload: threading.Thread | None = None
        self._not_stored: StorageError | None = None
        self._error: Exception | None = None

    def save(self, checkpoint: Checkpoint, position: Position, done: Done, *, last: bool) -> None:
        """Writes the checkpoint locally, then hands it to the upload thread.

        Args:
            done: What this node has done of the epoch that the checkpoint goes on with.
            last: Of the training: it waits for the upload before. Any other is dropped if that one takes too long.

        Raises:
            NotStoredError: the upload before the last takes longer than `timeouts.upload`.
            ControlError: the upload before could not be reported.
            tf.errors.OpError: another node that was to upload its files is lost.
        """
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
            keras=self._keras,
            others=others,
            loss=EpochLoss() if position.is_complete else position.epoch_loss,
        )
        if late or not_written:
            shutil.rmtree(folder, ignore_errors=True)
            error = self._dropped(
                not_written or f"the upload to {self._place.rundir.staging} before was still under way"
            )
            self._place.send(Action.UPLOADED, message.model_copy(update={"error": error}))
            return
        self._not_stored = None
        checkpoint.upload(message)
        send = partial(self._send, checkpoint, folder, message, began_s)
        self._upload = threading.Thread(target=send, name="upload", daemon=True)
        self._upload.start()

    def wait(self) -> None:
        """Waits until the last checkpoint is stored.

        Raises:
            NotStoredError: it could not be, or not within `timeouts.upload`.
        """
        self._join()
        if self._not_stored is not None:
            raise NotStoredError(f"the last checkpoint could not be stored: {self._not_stored}") from self._not_stored

    def _join(self) -> None:
        """Waits for the upload that is under way, if one is."""
        if self._upload is None:
            return
        limit = self._place.spec.config.timeouts.upload
        self._upload.join(limit)
        if self._upload.is_alive():
            raise NotStoredError(
                f"a checkpoint's upload to {self._place.rundir.staging} took longer than timeouts.upload: {limit:g} s"
            )
        self._upload = None
        if self._error is not None:
            raise self._error

    def _write(self, checkpoint: Checkpoint, folder: Path) -> tuple[tuple[str, ...], str]:
        """Writes the checkpoint locally; returns which files others have, and why it is not written, "" if it is."""
        try:
            return checkpoint.write(folder), ""
        except StorageError as e:
            return (), str(e)
        except (tf.errors.OpError, OSError) as e:
            if not is_full_disk(e):
                raise
            return (), f"the executor's local disk is full: cannot write {folder}; {LARGER_DISK}"

    def _send(self, checkpoint: Checkpoint, folder: Path, message: Uploaded, began_s: float) -> None:
        try:
            if self._place.leads:
                message = message.model_copy(update=self._store(folder, message.step))
            self._place.send(Action.UPLOADED, message)
            if not_stored := checkpoint.settle():
                self._not_stored = StorageError(not_stored)
        except Exception as e:  # noqa: BLE001 - the end of a thread: whoever saves or ends next raises it
            self._error = e
        finally:
            self.took_s = max(self.took_s, time.monotonic() - began_s)
            shutil.rmtree(folder, ignore_errors=True)

    def _store(self, folder: Path, step: int) -> dict[str, Any]:
        """Uploads the leader's files; returns what is to be said of it."""
        place = self._place
        target = place.rundir.staged(place.spec.attempt, checkpoint_name(step))
        try:
            return {"files": upload_folder(place.storage, folder, target)}
        except StorageError as e:
            self._not_stored = e
            return {"error": str(e)}

    def _dropped(self, reason: str) -> str:
        """Returns why the leader drops a checkpoint; nobody reads the other nodes' files."""
        if not self._place.leads:
            return ""
        self._not_stored = StorageError(reason)
        return reason
