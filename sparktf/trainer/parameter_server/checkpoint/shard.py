"""A parameter server's side of checkpoints: files on its own disk, uploaded while training goes on."""

from __future__ import annotations

import base64
import shutil
import threading
from collections.abc import Callable, Sequence
from functools import partial

from tensorflow.python.ops import script_ops

from sparktf.errors import StorageError
from sparktf.rundir import checkpoint_name
from sparktf.storage.transactions.checkpoints import upload_folder
from sparktf.trainer.node.checkpoint import download
from sparktf.trainer.node.failure import LARGER_DISK, is_full_disk
from sparktf.trainer.node.place import Place
from sparktf.trainer.parameter_server.checkpoint.shard_orders import (
    ORDER,
    SHARD,
    Begin,
    Check,
    Drop,
    Fetch,
    Look,
    PartFile,
    ShardAnswer,
    Upload,
)
from sparktf.wire.control import Action
from sparktf.wire.uploads import Uploaded


class Shard:
    """Carries out the coordinator's orders in sequence; TensorFlow itself writes and reads the files."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._folder = place.work / "shard"
        self._names: set[str] = set()
        self._thread: threading.Thread | None = None
        self._error = ""
        # TensorFlow holds it only by a weak reference.
        self._function = self.obey

    def register(self) -> None:
        """Registers `obey` with TensorFlow, for any graph that runs in this process."""
        script_ops._py_funcs._funcs[SHARD] = self._function

    def obey(self, order: bytes) -> bytes:
        """Carries out an order, or starts it in a thread: see `shard_orders.SHARD`."""
        try:
            answer = self._obey(order)
        except OSError as error:
            answer = ShardAnswer(error=_said(error))
        return answer.model_dump_json().encode()

    def _obey(self, order: bytes) -> ShardAnswer:
        match ORDER.validate_json(order):
            case Begin():
                return self._begin()
            case Check() as check:
                return self._check(check.parts)
            case Upload() as upload:
                return self._start(partial(self._upload, upload))
            case Fetch() as wanted:
                return self._start(partial(self._fetch, wanted))
            case Look():
                return ShardAnswer(busy=self._is_busy, error=self._error)
            case Drop():
                shutil.rmtree(self._folder, ignore_errors=True)
                return ShardAnswer()

    @property
    def _is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _begin(self) -> ShardAnswer:
        if self._is_busy:
            return ShardAnswer(busy=True)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        return ShardAnswer(folder=str(self._folder))

    def _check(self, parts: Sequence[PartFile]) -> ShardAnswer:
        """Renames the data files to their names in the checkpoint, and returns their indexes."""
        indexes = []
        for part in parts:
            data, index = (self._folder / f"{part.local}{end}" for end in (".data-00000-of-00001", ".index"))
            nbytes = data.stat().st_size
            if nbytes != part.nbytes:
                return ShardAnswer(error=f"{data} has {nbytes} bytes, expected {part.nbytes}")
            indexes.append(base64.b64encode(index.read_bytes()).decode())
            data.rename(self._folder / part.name)
            index.unlink()
        self._names = {part.name for part in parts}
        return ShardAnswer(indexes=tuple(indexes))

    def _start(self, work: Callable[[], None]) -> ShardAnswer:
        if self._is_busy:
            return ShardAnswer(busy=True)
        self._error = ""
        self._thread = threading.Thread(target=self._run, args=(work,), name="shard", daemon=True)
        self._thread.start()
        return ShardAnswer(folder=str(self._folder))

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the end of a thread: its order's answer says it
            self._error = _said(error)

    def _upload(self, order: Upload) -> None:
        place = self._place
        message = Uploaded(**place.spec.sender, step=order.step, epoch=order.epoch, done=(), keras=order.keras)
        try:
            files = upload_folder(
                place.storage, self._folder, place.rundir.staged(place.spec.attempt, checkpoint_name(order.step))
            )
            if vanished := self._names - {file.name for file in files}:
                raise StorageError(f"{', '.join(sorted(vanished))} vanished from {self._folder}")
            message = message.model_copy(update={"files": files})
        except StorageError as error:
            self._error = str(error)
            message = message.model_copy(update={"error": f"{place.spec.node}: {error}"})
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        place.send(Action.UPLOADED, message)

    def _fetch(self, order: Fetch) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        download(self._place.storage, order.path, order.files, self._folder)


def _said(error: BaseException) -> str:
    return (
        f"the executor's local disk is full: {error}; {LARGER_DISK}"
        if is_full_disk(error)
        else str(error) or type(error).__name__
    )
