"""The scoring process of an executor: it has TensorFlow and one model, and serves all tasks of the executor.

The first task starts `python -m sparktf.trainer.scoring EXECUTOR PLACE WORK`, with a socket that listens at PLACE as
its standard input. It ends with its executor, or when no task was connected for a while, sooner if tasks now
use another model.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sparktf.errors import ModelContractError, SparkTFError
from sparktf.feed.arrays.columns import Array
from sparktf.feed.arrays.shared import hear, tell
from sparktf.knobs import KNOBS
from sparktf.process.process_identity import is_alive
from sparktf.storage.file_systems import FileSystems
from sparktf.trainer.preload import complete_environment, put_off_rare, without_collector
from sparktf.wire.scored_model import BEAT, CODES, VALUES, ScoredModel, error_arrays, settings_of


class Scoring:
    """The model, which the first task loads, and the connected tasks."""

    def __init__(self, listening: socket.socket, place: Path, work: Path, executor: str) -> None:
        self._listening = listening
        self._place = place
        self._work = work
        self._executor = executor
        self._loading = threading.Lock()
        self._serve: Callable[..., dict[str, Any]] | None = None
        self._specs: Mapping[str, Any] = {}
        self._tasks: set[threading.Thread] = set()
        self._waiting: set[socket.socket] = set()
        self._own = _file_at(place)

    def run(self) -> None:
        """Serves until no task was connected for a while, or the executor is gone."""
        threading.Thread(target=self._beat, name="beats", daemon=True).start()
        self._listening.settimeout(KNOBS.scorer_look_s)
        idle_s = 0.0
        while idle_s < self._limit_s() and is_alive(self._executor):
            idle_s = 0.0 if self._admit() else idle_s + KNOBS.scorer_look_s
        if _file_at(self._place) == self._own:  # else it was given up, and another process has its place
            self._place.unlink(missing_ok=True)
        while self._admit():  # serves tasks that connected in time
            pass

    def _limit_s(self) -> float:
        if _file_at(self._place) != self._own:  # no task finds it any more
            return KNOBS.scorer_look_s
        return KNOBS.scorer_followed_s if is_followed(self._place) else KNOBS.scorer_idle_s

    def _admit(self) -> bool:
        """Accepts a task, if one connects now; returns whether there is any."""
        with suppress(TimeoutError, BlockingIOError):
            task, _ = self._listening.accept()
            thread = threading.Thread(target=self._obey, args=(task,), daemon=True)
            self._tasks.add(thread)
            thread.start()
        self._tasks = {thread for thread in self._tasks if thread.is_alive()}
        return bool(self._tasks)

    def _obey(self, task: socket.socket) -> None:
        """Answers a task until it disconnects."""
        task.setblocking(True)
        with task, suppress(EOFError, OSError):
            self._say(task)
            while True:
                tell(task, *self._told(task, *hear(task)))

    def _told(self, task: socket.socket, verb: str, arrays: dict[str, Array]) -> tuple[str, dict[str, Array] | None]:
        """Returns the answer to a task, which gets beats meanwhile."""
        self._waiting.add(task)
        try:
            answer = self._answer(verb, arrays)
        except SparkTFError as error:
            return "error", error_arrays(error)
        finally:
            self._waiting.discard(task)
        return "ready" if answer is None else "scored", answer

    def _beat(self) -> None:
        """Sends beats to each task that waits for an answer."""
        while True:
            time.sleep(KNOBS.scorer_look_s)
            for task in tuple(self._waiting):
                self._say(task)

    def _say(self, task: socket.socket) -> None:
        """Sends a beat, with this process's pid, to a task."""
        with suppress(OSError):  # the task is gone, or has not read earlier beats
            task.send(f"{BEAT} {os.getpid()}".encode(), socket.MSG_DONTWAIT)

    def _answer(self, verb: str, arrays: dict[str, Array]) -> dict[str, Array] | None:
        if verb == "score":
            return self._scored(arrays)
        with self._loading:
            if self._serve is None:
                self._serve = self._loaded(settings_of(arrays))
        return None

    def _loaded(self, model: ScoredModel) -> Callable[..., dict[str, Any]]:
        """Loads the model, and returns its signature.

        Raises:
            ModelContractError: it cannot be loaded.
            StorageError: its files cannot be read.
        """
        storage, folder = FileSystems(model.hadoop).open_runs(model.folder), self._work / "model"
        for name in model.files:
            local = folder / name
            local.parent.mkdir(parents=True, exist_ok=True)
            storage.download(f"{model.folder}/{name}", local)
        put_off_rare()
        with without_collector():
            import tensorflow as tf  # noqa: PLC0415 - it reads its environment when imported

        from sparktf.trainer.model.said import first_line  # noqa: PLC0415 - as above

        tf.config.threading.set_intra_op_parallelism_threads(model.threads)
        try:
            loaded = tf.saved_model.load(str(folder), tags=list(model.tags) or None)
        except Exception as error:
            raise ModelContractError(
                f"{model.folder} cannot be loaded: {type(error).__name__}: {first_line(error)}"
            ) from error
        serve: Any = loaded.signatures.get(model.signature)
        if serve is None:
            there = ", ".join(sorted(loaded.signatures)) or "none"
            raise ModelContractError(f"{model.folder} has no signature {model.signature!r}; it has: {there}")
        self._keep = loaded  # the signature alone does not keep its variables alive
        self._specs = serve.structured_input_signature[1]
        found: Callable[..., dict[str, Any]] = serve
        return found

    def _scored(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """Returns the outputs for some rows.

        Raises:
            ModelContractError: the model failed.
        """
        from sparktf.trainer.model.predictions import as_plain_arrays  # noqa: PLC0415 - as above
        from sparktf.trainer.model.said import first_line  # noqa: PLC0415 - as above

        if self._serve is None:
            raise ModelContractError("no model was loaded")
        try:
            return as_plain_arrays(self._serve(**fitting_inputs(_inputs(arrays), self._specs)))
        except Exception as error:
            raise ModelContractError(f"the model fails: {type(error).__name__}: {first_line(error)}") from error


def _file_at(place: Path) -> int:
    """Returns the inode at a path; 0 for none."""
    try:
        return place.lstat().st_ino
    except FileNotFoundError:
        return 0


def is_followed(place: Path) -> bool:
    """Whether a scoring process with another model has begun to serve the same executor since.

    The part of the socket's name before the last hyphen is the executor's.
    """
    try:
        began_ns = place.lstat().st_mtime_ns
        others = [path for path in place.parent.glob(f"{place.name.rpartition('-')[0]}-*") if path.is_socket()]
        return any(path.lstat().st_mtime_ns > began_ns for path in others if not path.name.startswith(place.name))
    except FileNotFoundError:  # another process ends just now; the caller looks again
        return False


def fitting_inputs(tensors: dict[str, Any], specs: Mapping[str, Any]) -> dict[str, Any]:
    """Casts and reshapes tensors to the dtypes and ranks of a signature: models of other programs may differ."""
    import tensorflow as tf  # noqa: PLC0415 - as above

    found = dict(tensors)
    for name, spec in specs.items():
        tensor = found.get(name)
        if tensor is None:
            continue
        if tensor.dtype != spec.dtype:
            found[name] = tensor = tf.cast(tensor, spec.dtype)
        if spec.shape.rank is not None and tensor.shape.rank != spec.shape.rank:
            found[name] = tf.reshape(tensor, [-1 if size is None else size for size in spec.shape.as_list()])
    return found


def _inputs(arrays: dict[str, Array]) -> dict[str, Any]:
    import tensorflow as tf  # noqa: PLC0415 - as above

    from sparktf.trainer.model.tensors import in_place  # noqa: PLC0415 - as above

    found: dict[str, Any] = {}
    for name, array in arrays.items():
        if name.endswith(CODES):
            own = name.removesuffix(CODES)
            found[own] = tf.gather(tf.constant(arrays[own + VALUES], tf.string), tf.constant(array))
        elif not name.endswith(VALUES):
            found[name] = in_place(array)
    return found


def main() -> None:
    """Serves the socket that is the standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of the terminal; Spark handles it
    executor, place, work = sys.argv[1:]
    complete_environment()
    try:
        Scoring(socket.socket(fileno=0), Path(place), Path(work), executor).run()
    finally:
        shutil.rmtree(work, ignore_errors=True)
        os._exit(0)  # TensorFlow's threads may still be at work


if __name__ == "__main__":
    main()
