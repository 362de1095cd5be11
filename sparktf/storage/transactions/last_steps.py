"""The steps that follow the result of a run: each may be done twice, and the remaining ones are recorded.

With its result a run is decided; its row of the history, its report, MLflow and `output.on_end` come after that. Before
the result is written, `last_steps.json` names the steps that will follow it, and after each step the remaining ones:
none, once all are done. A driver that is killed in between leaves a result with remaining steps. The next submission of
the same id then does these before it repeats the verdict, as the run's owner, so that no two do them side by side.

A step is repeated if a driver was killed between the step's end and the call that records it: it writes the same again,
and a command of `output.on_end` runs once more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress

from pydantic import ValidationError

from sparktf.errors import FencedOffError, StorageError, StorageNotFoundError
from sparktf.message import Message
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage
from sparktf.storage.transactions.fence import Fence
from sparktf.told import log_of

_log = log_of(__name__)


class StepsLeft(Message):
    """The record."""

    result: str  # SHA-256 of the result.json that the steps follow
    steps: tuple[str, ...]  # The remaining ones, in order


class LastSteps:
    """The steps that follow one run's result."""

    def __init__(self, storage: Storage, rundir: RunDirectory, fence: Fence) -> None:
        """Touches nothing. `fence` writes the record."""
        self._storage = storage
        self._rundir = rundir
        self._fence = fence

    def announce(self, content: bytes, steps: Sequence[str]) -> None:
        """Records the steps that will follow a result, before that is written; without steps, nothing.

        Raises:
            FencedOffError: the run belongs to another submission.
            StorageError: the storage failed.
        """
        if steps:
            record = StepsLeft(result=hashlib.sha256(content).hexdigest(), steps=tuple(steps))
            self._fence.put(self._rundir.last_steps, _content(record))

    def left(self) -> tuple[str, ...]:
        """Returns the remaining steps of the present result; none without a record of it. Raises `StorageError`."""
        record = self._record()
        if record is None or not record.steps:
            return ()
        try:
            is_its_result = self._storage.checksum(self._rundir.result) == record.result
        except StorageNotFoundError:
            return ()
        return record.steps if is_its_result else ()

    def do(self, step: Callable[[str], None], say: Callable[[str], None]) -> None:
        """Does the remaining steps, and records each as done in one call.

        Steps that the storage does not record remain for the next submission of the run.

        Args:
            step: Does the step of a name. Raises nothing.
        """
        try:
            record = self._record()
            if record is None:
                return
            for name in self.left():
                record = record.model_copy(update={"steps": record.steps[1:]})
                # Written before, and only put in place after: a process killed in between leaves the step.
                written = self._fence.prepare(self._rundir.last_steps, _content(record))
                step(name)
                self._fence.show(written, self._rundir.last_steps)
        except FencedOffError as error:
            say(f"the steps after the result are left to another submission: {error}")
        except StorageError as error:
            say(f"the steps after the result were not done: {error}; submit the same run id again to do them")

    def _record(self) -> StepsLeft | None:
        return recorded_steps(self._storage, self._rundir)


def recorded_steps(storage: Storage, rundir: RunDirectory) -> StepsLeft | None:
    """Returns the record; None without one of this version. Raises `StorageError`."""
    with suppress(StorageNotFoundError):
        content = storage.read_bytes(rundir.last_steps)
        try:
            return StepsLeft.model_validate_json(content)
        except ValidationError:
            _log.warning("%s is skipped, since this version of sparktf cannot read it", rundir.last_steps)
    return None


def _content(record: StepsLeft) -> bytes:
    return json.dumps(record.model_dump(mode="json"), indent=1).encode()
