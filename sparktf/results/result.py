"""The result of a run, as stored in result.json."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Literal, NamedTuple

from sparktf.errors import ErrorRecord, RunInterruptedError, Verdict
from sparktf.message import Message
from sparktf.results.carried import Carried
from sparktf.results.comparison import Comparison
from sparktf.results.keep import Evaluation, Kept
from sparktf.results.outlived import Outlived
from sparktf.results.pace import NodePace, SlowNode
from sparktf.results.time_limit import Ending
from sparktf.results.usage import Made, Usage


class NodeInput(Message):
    """The training rows that a node has read, in one epoch or several."""

    # By the way they came: "direct" from files; from feeders by "unix" socket on its own host or by "tcp"; from a
    # "peer" that had too many. Rows kept from an earlier epoch are counted there.
    rows: dict[str, int] = {}
    given: int = 0  # Rows given to peers that had run dry
    nbytes: int = 0  # Bytes read, of which `local_nbytes` were stored, or computed, on its own host
    local_nbytes: int = 0
    spilled_nbytes: int = 0  # Bytes written to the executor's local disk
    memory_nbytes: int = 0  # Bytes kept for later epochs in memory, `disk_nbytes` in files, at the end of the last one
    disk_nbytes: int = 0
    wait_s: float = 0.0  # Seconds of `seconds` in which training waited for rows
    seconds: float = 0.0
    feeders_wait_s: float = 0.0  # Seconds in which feeders waited for training

    def __add__(self, later: NodeInput) -> NodeInput:
        """Returns the sum of both; bytes kept are those of the later one."""
        rows = Counter(self.rows)
        rows.update(later.rows)
        return NodeInput(
            rows=dict(rows),
            given=self.given + later.given,
            nbytes=self.nbytes + later.nbytes,
            local_nbytes=self.local_nbytes + later.local_nbytes,
            spilled_nbytes=self.spilled_nbytes + later.spilled_nbytes,
            memory_nbytes=later.memory_nbytes,
            disk_nbytes=later.disk_nbytes,
            wait_s=self.wait_s + later.wait_s,
            seconds=self.seconds + later.seconds,
            feeders_wait_s=self.feeders_wait_s + later.feeders_wait_s,
        )

    def since(self, earlier: NodeInput) -> NodeInput:
        """Returns the input since an earlier reading of the same feed; bytes kept are those of this one."""
        counts = {way: rows - earlier.rows.get(way, 0) for way, rows in self.rows.items()}
        return NodeInput(
            rows={way: rows for way, rows in counts.items() if rows},
            given=self.given - earlier.given,
            nbytes=self.nbytes - earlier.nbytes,
            local_nbytes=self.local_nbytes - earlier.local_nbytes,
            spilled_nbytes=self.spilled_nbytes - earlier.spilled_nbytes,
            memory_nbytes=self.memory_nbytes,
            disk_nbytes=self.disk_nbytes,
            wait_s=self.wait_s - earlier.wait_s,
            seconds=self.seconds - earlier.seconds,
            feeders_wait_s=self.feeders_wait_s - earlier.feeders_wait_s,
        )


class Application(NamedTuple):
    """The Spark application of a run."""

    id: str
    attempt: int = 0  # Number of YARN's ApplicationMaster in cluster mode, 0 elsewhere


class EpochRows(Message):
    """The rows of one epoch: planned == fed == trained + set_aside once it is complete."""

    epoch: int
    planned: int
    fed: int
    trained: int
    set_aside: int = 0
    # Rows that may have gone into two updates, because a worker was lost or interrupted between them; 0 where all nodes
    # make every update together
    replayed: int = 0
    # Gradients that came too late for their update, under `train.replicas_to_aggregate`, in the last attempt; their
    # rows went into other updates
    dropped: int = 0
    complete: bool


class NodeResult(Message):
    """One node of an attempt."""

    node: str
    host: str
    nbytes: int  # Bytes of training data that it read
    threads: int | None = None  # Threads that TensorFlow was given for an operation; None for as many as it likes
    local_nbytes: int | None = None  # Of these, bytes stored on its own host; None if the file system lacks that
    log: str = ""  # Address of its executor's log, "" if there is none
    input: NodeInput = NodeInput()  # Details of its reading
    made: Made | None = None  # Its updates, where each worker makes its own; `usage` is the resources they took
    usage: Usage | None = None
    pace: NodePace | None = None  # The time of its updates, where all make them together


class AttemptResult(Message):
    """One attempt: its size, its first step, and its end."""

    attempt: int
    workers: int
    hosts: tuple[str, ...]
    from_step: int
    to_step: int
    duration_s: float
    root_cause: ErrorRecord | None = None
    nodes: tuple[NodeResult, ...] = ()  # As they were at its end
    failures: tuple[ErrorRecord, ...] = ()
    losses: tuple[ErrorRecord, ...] = ()  # Lost trainers that were replaced during the attempt
    outlived: tuple[Outlived, ...] = ()  # Of these, workers without which a synchronous gang went on: at which updates
    slow: tuple[SlowNode, ...] = ()  # Nodes of a synchronous gang that the others have waited for, as they were found
    replay_end: str = ""  # Up to where `data.rebalance: off` held, if a loss has ended that
    # What summed gradients over its workers, with the reason; "" where there was nothing to sum
    collectives: str = ""
    advice: str = ""  # How to change the ratio of workers to parameter servers, with the reason; "" for no change


StopReason = Literal["early_stopping", "callbacks", "deadline", "max_seconds"]


class Stopped(Message):
    """Training ended early, as the configuration allows."""

    reason: StopReason
    epoch: int  # The last one that was trained on, at least in part
    step: int  # Updates of the whole run
    text: str  # The reason for people


class RunResult(Message):
    """The result of a run.

    Attributes:
        verdict: The exit code; 0 is done.
        rows: Of every epoch trained in this submission, "planned" and so on.
        metrics: Last metrics by stream, e.g. `metrics["validation"]["accuracy"]`; those of the best weights where
            these are kept.
        validation: Validation metrics of every epoch of the run, or of the commits that an evaluator has read.
        kept: The exported weights, where `train.keep` is `best`.
        carried: The weights taken over, where `train.init_from` names another run's model.
        comparison: The gate's outcome, where `gate` is configured.
        stopped: Why the training ended before its last epoch, where the configuration allows that.
        ending: Time from the last update until the driver took over for the phase "publish"; None for a `train(node)`.
        date: The day of the run (`--date`), as YYYY-MM-DD; "" for none.
        source_version: Version of the Delta table, or snapshot of the Iceberg table, that was read; None for others.
        steps: Optimizer updates of the whole run.
        model: Folder of the published model, "" if there is none.
        error: The root cause of a run that failed.
        evaluation_error: Why an evaluator did not evaluate the last commits.
        seconds: Time of this submission by phase: "preflight", "wait" for the data, "plan", "check" of the data,
            "prepare", "reserve", "train", "publish"; without those that took none. Their sum is the run's time.
        extra: The outcome of `publish`, if configured: "published", the version or None, and "publishing", in words.
        application: Id of the Spark application that wrote this; `application_attempt` counts YARN's in cluster mode.
    """

    run_id: str
    name: str
    verdict: Verdict
    date: str = ""
    source_version: int | None = None
    steps: int = 0
    epochs: int = 0
    rows_trained: int = 0
    rows: tuple[EpochRows, ...] = ()
    metrics: dict[str, dict[str, float]] = {}
    validation: tuple[Evaluation, ...] = ()
    kept: Kept | None = None
    stopped: Stopped | None = None
    ending: Ending | None = None
    carried: Carried | None = None
    comparison: Comparison | None = None
    model: str = ""
    checkpoint: str = ""
    path: str = ""
    attempts: tuple[AttemptResult, ...] = ()
    error: ErrorRecord | None = None
    evaluation_error: ErrorRecord | None = None
    started: str = ""
    duration_s: float = 0.0
    seconds: dict[str, float] = {}
    versions: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
    extra: dict[str, Any] = {}
    application: str = ""
    application_attempt: int = 0

    @property
    def is_final(self) -> bool:
        """Whether another submission repeats this verdict; a run that infrastructure ended is resumed instead."""
        return self.verdict in (Verdict.DONE, Verdict.GATED)

    @property
    def locality(self) -> float | None:
        """Share of the bytes read that were stored on the reader's host; None if nothing was read, or unknown."""
        nodes = self._readers()
        nbytes = sum(node.nbytes for node in nodes)
        return sum(node.local_nbytes or 0 for node in nodes) / nbytes if nbytes else None

    @property
    def host_nbytes(self) -> dict[str, tuple[int, int]]:
        """Bytes read by host, and of these the bytes stored there; empty where `locality` is None."""
        held: dict[str, tuple[int, int]] = {}
        for node in self._readers():
            nbytes, local_nbytes = held.get(node.host, (0, 0))
            held[node.host] = (nbytes + node.nbytes, local_nbytes + (node.local_nbytes or 0))
        return held

    @property
    def waiting_share(self) -> float | None:
        """Share of the trainers' time spent waiting for rows; None if nothing was trained."""
        inputs = [node.input for attempt in self.attempts for node in attempt.nodes]
        seconds = sum(i.seconds for i in inputs)
        return sum(i.wait_s for i in inputs) / seconds if seconds else None

    def _readers(self) -> list[NodeResult]:
        """Returns all nodes that read; none unless the locality of each is known."""
        nodes = [node for attempt in self.attempts for node in attempt.nodes if node.nbytes]
        return [] if any(node.local_nbytes is None for node in nodes) else nodes

    @property
    def is_interrupted(self) -> bool:
        """Whether the run was stopped from outside, without its own verdict."""
        return self.error is not None and self.error.type == RunInterruptedError.__name__

    def is_repeated_by(self, application: Application) -> bool:
        """Whether the application repeats this result instead of training.

        YARN starts a second ApplicationMaster after any verdict of the first one: it repeats the verdict.
        """
        again = application.id == self.application and application.attempt > self.application_attempt
        return self.is_final or (again and not self.is_interrupted)

    def raise_for_verdict(self) -> None:
        """Raises the error of a run that failed: the `SparkTFError` of its root cause."""
        if self.error is not None:
            error = self.error.to_error()
            error.result = self
            raise error


def result_content(result: RunResult) -> bytes:
    """Returns the content of result.json."""
    return json.dumps(result.model_dump(mode="json"), indent=1).encode()
