"""The document of `sparktf plan` on a run that has not begun; its names are stable.

None stands for unknown values. Times are ISO 8601 in UTC, durations seconds, sizes bytes unless named MiB.
"""

from __future__ import annotations

from typing import Literal

from sparktf.message import Message
from sparktf.storage.transactions.ownership import Step
from sparktf.storage.transactions.terms import Term


class Problem(Message):
    """A fault that would end the run; the first of several decides."""

    type: str  # Name of the error's class
    verdict: int  # Its exit code
    message: str


class OwnerForecast(Message):
    """The owner of the run."""

    # "silent" if its beat stood still during the look: a submission watches it for `timeouts.owner`, and takes the run
    # over if it stays silent
    state: Literal["nobody", "released", "owned", "silent"]
    application: str = ""
    host: str = ""
    user: str = ""
    since: str = ""


class RunForecast(Message):
    """The state of the run."""

    run_id: str  # "" without `--run-id` and `--date`: then each application is a run of its own
    path: str
    # "decided": it has a result that is no success, and begins anew or resumes; "planned": it has a plan
    state: Literal["new", "planned", "decided", "done"]
    verdict: int | None = None  # Of the existing result
    step: int = 0  # Of the checkpoint that it resumes from; 0 for none
    rows_left: int | None = None  # Rows of training that are left, over all epochs
    owner: OwnerForecast | None = None


class StreamForecast(Message):
    """One stream in one epoch; rows that Spark feeds are not counted beforehand."""

    stream: str
    fed_by: Literal["trainers", "spark"]
    rows: int | None = None
    nbytes: int | None = None
    row_groups: int | None = None
    shuffle_blocks: int | None = None
    files: int | None = None  # That have rows of the stream


class DataForecast(Message):
    """The data."""

    ready: bool | None = None  # The outcome of `data.ready`; None without it, or for a run that is planned already
    missing: str = ""  # The missing part
    # "now", or "before" for a stored plan; None if it cannot be planned
    planned: Literal["now", "before"] | None = None
    files: int | None = None  # Of all streams
    streams: tuple[StreamForecast, ...] = ()


class CheckFinding(Message):
    """A bound of `data.checks` that does not hold, by the footers."""

    level: Literal["refuse", "warn"]  # "refuse" ends the run with exit code 3
    text: str
    certain: bool  # The run would find the same; a sample might not


class ChecksForecast(Message):
    """The outcome of `data.checks` before a row is read."""

    # Run that drift is measured against; "" for none. `baseline_version`: its published model, if it is the current
    # one.
    baseline: str = ""
    baseline_version: int | None = None
    # Keys of the bounds that footers decide, below `data.checks`; `left` are those that need rows
    judged: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    findings: tuple[CheckFinding, ...] = ()
    columns: int = 0  # How many of `used_columns` have statistics in every footer
    used_columns: int = 0


class UpdatesForecast(Message):
    """Updates of a training in sparktf's own loop."""

    per_epoch: int
    epochs: int
    total: int
    exact: bool  # Whether the number is exact if all goes well; else it is an estimate
    may_end_before: bool = False  # Whether metrics, time or callbacks may end the training earlier
    limited_by: str = ""  # "train.max_steps", or ""


class HostForecast(Message):
    """A host at which executors are requested."""

    host: str
    executors: int  # How many
    nbytes: int  # Bytes of the training data stored there
    # Executors that it has room for now; None if the cluster does not tell, 0 if it has no such host
    fits: int | None = None


class LocalityForecast(Message):
    """Where the bytes are read."""

    # Share of an epoch's training bytes stored on their reader's host, if executors come where they are requested; None
    # if the file system does not tell where its blocks are
    share: float | None = None
    hosts_with_data: int = 0  # The number of hosts that hold blocks
    asked: tuple[HostForecast, ...] = ()  # On YARN with `cluster.placement: data`


class RoomForecast(Message):
    """The gang's needs against the cluster's capacity."""

    master: str
    nodes: int  # Trainers, each in an executor of its own, but on `local[n]`
    slots: int | None = None  # Of the master, if it tells
    node_mib: int  # Size of an executor's container as YARN allocates it; on one machine a trainer's memory
    driver_mib: int | None = None  # Of the driver's container, in cluster mode
    hosts: int | None = None
    memory_mib: int | None = None
    free_mib: int | None = None  # Free memory now, of `memory_mib`; `free_vcores` likewise
    vcores: int | None = None
    free_vcores: int | None = None
    fits: int | None = None  # Nodes that fit into the free memory
    said: str  # Who was asked, or why nobody could be


class FormerRuns(Message):
    """A summary of the last runs of the name: medians, except for `ending_s`."""

    runs: tuple[str, ...]  # Their ids, the last first
    rows_s: float | None = None  # Rows trained a second, evaluations and checkpoints included
    epoch_rows: int | None = None  # Of the newest run's last whole epoch
    seconds: dict[str, float] = {}  # By phase, as in `result.json`
    evaluation_s: float | None = None  # The longest evaluation of a run, and the longest checkpoint
    checkpoint_s: float | None = None
    # Of the newest run that still has its last checkpoint; `model_nbytes` likewise
    checkpoint_nbytes: int | None = None
    model_nbytes: int | None = None
    ending_s: float = 0.0  # The time after the training, of the slowest run


class TimesForecast(Message):
    """The times if the run began now and went as those before."""

    begins: str
    train_s: float | None = None  # None if no earlier run tells the speed, or the rows are unknown
    duration_s: float | None = None  # Of the whole run; `ends` is the time of its end
    ends: str | None = None
    limit: str = ""  # The setting that limits its time, e.g. "train.deadline: 06:00 Europe/Berlin"; "" for none.
    due: str | None = None  # The time of that limit
    reserve_s: float | None = None  # Time before it that is left for the end
    in_time: bool | None = None  # Whether all epochs are trained by then; else about `epochs_in_time` are
    epochs_in_time: float | None = None


class PublishForecast(Message):
    """The outcome of `publish`."""

    date: str  # Day of the model
    # "new": it becomes `version`; "newer stands": `version`, of `standing_date`, stays; "published": the run has
    # published already
    outcome: Literal["new", "newer stands", "published"]
    version: int
    standing_date: str = ""


class ChampionForecast(Message):
    """The current published model."""

    version: int
    run_id: str = ""
    date: str = ""
    metrics: dict[str, dict[str, float]] = {}


class Forecast(Message):
    """The forecast of a run before anything is held."""

    name: str
    date: str
    exit_code: int  # The exit code if the run would end before it trains; 0 if it would train, or is done
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    known: tuple[str, ...] = ()  # Facts that are in order, in words; `unknown` could not be checked
    unknown: tuple[str, ...] = ()
    run: RunForecast
    data: DataForecast
    checks: ChecksForecast | None = None
    updates: UpdatesForecast | None = None
    locality: LocalityForecast | None = None
    room: RoomForecast | None = None
    former: FormerRuns
    times: TimesForecast
    publish: PublishForecast | None = None
    champion: ChampionForecast | None = None
    init_from: str = ""  # The model whose weights it would begin with; "" for new ones


def owner_of_run(step: Step, term: Term) -> OwnerForecast:
    """Returns the owner found by a look at a run's newest term."""
    states = {Step.IS_OWNED: "owned", Step.LOOK_AGAIN: "silent"}
    state = states.get(step, "released" if term.number and term.released else "nobody")
    owner = {} if term.owner is None else term.owner.model_dump(include={"application", "host", "user", "since"})
    return OwnerForecast.model_validate({"state": state, **owner})
