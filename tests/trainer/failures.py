"""What may end a trainer, and what the driver is told of it; for the process `elsewhere`."""

from __future__ import annotations

import errno
import importlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparktf.config.job import JobConfig
from sparktf.errors import ErrorRecord, NodeLostError, StorageError
from sparktf.feature import FeedSpec
from sparktf.storage.file_systems import open_storage
from sparktf.topology import ClusterSpec, NodeId, Role
from sparktf.trainer.node.place import Place
from sparktf.trainer.node.position import Done, Position
from sparktf.trainer.node.report import Reporter
from sparktf.wire.channel import ControlClient
from sparktf.wire.control import Action, Failed
from sparktf.wire.security import ControlAccess
from sparktf.wire.trainer_spec import Collectives, Training

ABORTED = """Graph execution error:

Detected at node while/CollectiveReduceV2 defined at (most recent call last):
  File "model.py", line 54, in <module>

Collective ops is aborted by: Error reported from /job:worker/task:1: The following tasks are unhealthy (stopped):
/job:worker/replica:0/task:1
The error could be from a previous operation. Restart your program to reset.
\t [[{{node while/CollectiveReduceV2}}]] [Op:__inference_f_129]"""


def told(config: JobConfig, what: str, nodes: int, folder: str) -> ErrorRecord:
    """Returns the record of the named failure in a gang of so many nodes; local files are below `folder`."""
    failure = importlib.import_module("sparktf.trainer.node.failure")
    spec = spec_of(config, nodes)
    tf = importlib.import_module("tensorflow")
    try:
        FAILURES[what](tf, folder)
    except (tf.errors.OpError, OSError, MemoryError) as error:
        record: ErrorRecord = failure.error_record(error, spec, work=Path(folder), time_s=1.0, host="h")
        return record
    raise LookupError(f"nothing failed: {what}")


def spec_of(config: JobConfig, nodes: int, index: int = 0) -> Training:
    """Returns what the trainer of a gang of so many nodes gets."""
    return Training(
        run_id="r",
        run_root=config.output.path,
        attempt=1,
        node=NodeId(role=Role.WORKER, index=index),
        cluster=ClusterSpec(worker=tuple(f"h:{i}" for i in range(nodes))),
        config=config,
        feed=FeedSpec(features=()),
        rows={},
        assets={},
    )


def place_of(spec: Training, work: Path, reporter: Any = None) -> Place:
    """Returns the place of a trainer whose driver does not answer."""
    client = ControlClient(ControlAccess(location="grpc://127.0.0.1:1", secret="s"))
    return Place(spec, client, reporter or Reporter(client, spec), work)


def saved_to_full_disk(config: JobConfig, folder: Path) -> list[tuple[str, str]]:
    """Saves a checkpoint on a full disk as each of two nodes; returns what the driver is told, and how the end ends."""
    checkpoint = importlib.import_module("sparktf.trainer.node.checkpoint_writer")

    class Full:
        def write(self, path: str) -> None:
            del path
            _full_elsewhere(None, "")

    class Told:
        def send(self, action: Action, message: Any) -> None:
            del action
            self.error = message.error

    found = []
    for index in range(2):
        told = Told()
        place = place_of(spec_of(config, 2, index), folder, told)
        writer = checkpoint.CheckpointWriter(place, "keras")
        writer.save(Full(), Position(step=1), Done(), last=False)
        try:
            writer.wait()
            end = ""
        except StorageError as error:
            end = str(error)
        found.append((told.error, end))
    return found


def who_writes(config: JobConfig, collectives: Collectives, folder: Path) -> list[bool]:
    """Returns which nodes of two write the files of a checkpoint of which each knows what all have trained."""
    checkpoint = importlib.import_module("sparktf.trainer.node.checkpoint_writer")

    class Files:
        has_written = False

        def write(self, path: Path) -> tuple[str, ...]:
            self.has_written = True
            path.mkdir()
            return ()

        def upload(self, message: Any) -> None:
            del message

        def settle(self) -> str:
            return ""

    class Driver:
        def send(self, action: Action, message: Any) -> None:
            del action, message

    found = []
    for index in range(2):
        spec, files = spec_of(config, 2, index).model_copy(update={"collectives": collectives}), Files()
        writer = checkpoint.CheckpointWriter(place_of(spec, folder, Driver()), "keras")
        writer.save(files, Position(step=1), Done(of_all=True), last=False)
        writer.wait()
        found.append(files.has_written)
    return found


def summaries_stored(folder: Path) -> list[list[str]]:
    """Flushes summaries while a local file stands where their folder is to be, and again without it.

    Returns the error and then the files that are stored, of both times.
    """
    module = importlib.import_module("sparktf.trainer.node.outputs")
    (folder / "tensorboard").touch()
    summaries = module.Summaries(open_storage(str(folder)), str(folder / "stored"), folder, 1)
    summaries.scalar("train", "loss", 0.5, 1)
    found = []
    for _ in range(2):
        try:
            summaries.flush()
            said = ""
        except StorageError as error:
            said = str(error)
        found.append([said, *(str(path.parent.name) for path in (folder / "stored").rglob("*tfevents*"))])
        (folder / "tensorboard").unlink(missing_ok=True)
    return found


def failed_beside_a_call(config: JobConfig, work: Path, told: Path) -> None:
    """Fails in two threads, while the main one is in a call that does not return; what the driver gets is in `told`."""

    class Told:
        def fail(self, failed: Failed) -> None:
            second = threading.Thread(target=place.fail, args=(ValueError("the second"),), daemon=True)
            second.start()
            second.join(0.2)
            with told.open("a") as file:
                file.write(failed.record.model_dump_json())

    place = place_of(spec_of(config, 2), work, Told())
    threading.Thread(target=place.fail, args=(NodeLostError("worker 1 is lost"),), daemon=True).start()
    threading.Event().wait()


def _raised(name: str) -> Callable[[Any, str], None]:
    """As the model's own Python code raises it."""

    def fail(tf: Any, folder: str) -> None:
        del folder
        raise getattr(tf.errors, name)(None, None, "my own word")

    return fail


def _of_runtime(name: str, text: str) -> Callable[[Any, str], None]:
    """As TensorFlow's runtime raises it: the last frame is TensorFlow's."""

    def fail(tf: Any, folder: str) -> None:
        del folder
        frame: dict[str, Any] = {"__name__": "tensorflow.python.eager.execute"}
        exec("def quick_execute(error): raise error", frame)  # a frame of that module
        frame["quick_execute"](getattr(tf.errors, name)(None, None, text))

    return fail


def _in_py_function(error: Callable[[Any], Exception]) -> Callable[[Any, str], None]:
    def fail(tf: Any, folder: str) -> None:
        del folder

        def python() -> None:
            raise error(tf)

        @tf.function  # type: ignore[untyped-decorator]
        def step() -> Any:
            return tf.py_function(python, [], tf.float32)

        step()

    return fail


def _while_traced(tf: Any, folder: str) -> None:
    del folder

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> Any:
        raise tf.errors.CancelledError(None, None, "my own word")

    step()


def _full_device(tf: Any, folder: str) -> None:
    """A file of the trainer's own whose disk is full."""
    os.symlink("/dev/full", f"{folder}/file")
    tf.io.write_file(f"{folder}/file", "x" * 100_000)


def _full_elsewhere(tf: Any, folder: str) -> None:
    del tf, folder
    with open("/dev/full", "w") as stream:
        stream.write("x" * 100_000)


def _no_space(number: int) -> Callable[[Any, str], None]:
    def fail(tf: Any, folder: str) -> None:
        del tf
        raise OSError(number, os.strerror(number), f"{folder}/model/variables")

    return fail


FAILURES: dict[str, Callable[[Any, str], None]] = {
    "own CancelledError": _raised("CancelledError"),
    "own AbortedError": _raised("AbortedError"),
    "own DeadlineExceededError": _raised("DeadlineExceededError"),
    "own UnavailableError": _raised("UnavailableError"),
    "own ResourceExhaustedError": _raised("ResourceExhaustedError"),
    "own CancelledError while traced": _while_traced,
    "own CancelledError in a py_function": _in_py_function(lambda tf: tf.errors.CancelledError(None, None, "mine")),
    "own connection in a py_function": _in_py_function(
        lambda tf: OSError(errno.ECONNRESET, "Connection reset by peer")
    ),
    "disk in a py_function": _in_py_function(lambda tf: OSError(errno.ENOSPC, "No space left on device", "/lake/file")),
    "memory in a py_function": _in_py_function(lambda tf: MemoryError("no more")),
    "peers": _of_runtime("UnavailableError", ABORTED),
    "peers, told as another error": _of_runtime("InternalError", ABORTED),
    "peers, cancelled": _of_runtime("CancelledError", "RecvAsync is cancelled"),
    "local disk, by TensorFlow": _full_device,
    "local disk, by Python": _no_space(errno.ENOSPC),
    "quota, by Python": _no_space(errno.EDQUOT),
    "other disk": _full_elsewhere,
    "memory, by TensorFlow": _of_runtime("ResourceExhaustedError", "OOM when allocating tensor with shape[9,9]"),
    "too many files": _of_runtime("ResourceExhaustedError", "/lake/file; Too many open files"),
}
