"""What `sparktf plan` says of a run that has not begun: one document, whose names are stable.

None stands for what nobody knows. Times are ISO 8601 in UTC, lengths of time seconds, sizes bytes unless named MiB.
"""

from __future__ import annotations

from typing import Literal

from sparktf.message import Message
from sparktf.storage.transactions.ownership import Step
from sparktf.storage.transactions.terms import Term


class Problem(Message):
    """Something that would end the run; of several the first decides.

    Attributes:
        type: Name of the error's class.
        verdict: The exit code that it gives.
    """

    type: str
    verdict: int
    message: str


class OwnerForecast(Message):
    """Who owns the run.

    Attributes:
        state: "silent" is one whose beat stood still while it was looked at: whoever submits watches it for
            `timeouts.owner`, and takes the run over if it stays so.
    """

    state: Literal["nobody", "released", "owned", "silent"]
    application: str = ""
    host: str = ""
    user: str = ""
    since: str = ""


class RunForecast(Message):
    """What there is of the run.

    Attributes:
        run_id: "" where neither `--run-id` nor `--date` says: then each application is a run of its own.
        state: "decided": it has a result that is no success, and begins anew or goes on; "planned": it has a plan.
        verdict: Of the result that is there.
        step: Of the checkpoint that it goes on from; 0 for none.
        rows_left: Rows of training that are left, over all epochs.
    """

    run_id: str
    path: str
    state: Literal["new", "planned", "decided", "done"]
    verdict: int | None = None
    step: int = 0
    rows_left: int | None = None
    owner: OwnerForecast | None = None


class StreamForecast(Message):
    """One stream in one epoch; what Spark feeds nobody counts before.

    Attributes:
        files: That have rows of the stream.
    """

    stream: str
    fed_by: Literal["trainers", "spark"]
    rows: int | None = None
    nbytes: int | None = None
    row_groups: int | None = None
    shuffle_blocks: int | None = None
    files: int | None = None


class DataForecast(Message):
    """The data.

    Attributes:
        ready: What `data.ready` says; None where it is not configured, or not asked since the run is planned already.
        missing: What of it is not there.
        planned: "now", or "before" where the run has a stored plan; None where it cannot be planned.
        files: Of all streams.
    """

    ready: bool | None = None
    missing: str = ""
    planned: Literal["now", "before"] | None = None
    files: int | None = None
    streams: tuple[StreamForecast, ...] = ()


class CheckFinding(Message):
    """A bound of `data.checks` that does not hold, by what footers say.

    Attributes:
        level: "refuse" ends the run with exit code 3.
        certain: The run would find the same; of a sample it need not.
    """

    level: Literal["refuse", "warn"]
    text: str
    certain: bool


class ChecksForecast(Message):
    """What `data.checks` says before a row is read.

    Attributes:
        baseline: Run whose statistics drift is measured against; "" for none. `baseline_version`: its published model,
            where that is what readers have.
        judged: The bounds that footers decide, by their keys below `data.checks`; `left` takes rows.
        columns: Of how many used columns every footer has statistics, of `used_columns`.
    """

    baseline: str = ""
    baseline_version: int | None = None
    judged: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    findings: tuple[CheckFinding, ...] = ()
    columns: int = 0
    used_columns: int = 0


class UpdatesForecast(Message):
    """Updates of a training in sparktf's own loop.

    Attributes:
        exact: Whether that is how many there will be if all goes well; else about so many.
        may_end_before: Whether metrics, time or callbacks may end the training earlier.
        limited_by: "train.max_steps", or "".
    """

    per_epoch: int
    epochs: int
    total: int
    exact: bool
    may_end_before: bool = False
    limited_by: str = ""


class HostForecast(Message):
    """A host that executors are asked for at.

    Attributes:
        executors: How many.
        nbytes: Of the training data that lie there.
        fits: How many executors it has room for now; None where the cluster does not say, 0 where it has no such host.
    """

    host: str
    executors: int
    nbytes: int
    fits: int | None = None


class LocalityForecast(Message):
    """Where the bytes are read.

    Attributes:
        share: Of the training bytes of an epoch, what lies on its reader's own host if executors come where they are
            asked for; None where the file system does not say where its blocks lie.
        hosts_with_data: How many hosts hold blocks.
        asked: On YARN with `cluster.placement: data`.
    """

    share: float | None = None
    hosts_with_data: int = 0
    asked: tuple[HostForecast, ...] = ()


class RoomForecast(Message):
    """The gang against what the cluster has.

    Attributes:
        nodes: Trainers, each in an executor of its own, but on `local[n]`.
        slots: Of the master, where it says.
        node_mib: What an executor's container takes as YARN allocates it; on one machine a trainer's memory.
        free_mib: Memory that is free now, of `memory_mib`; `free_vcores` likewise.
        fits: How many of the nodes there is memory for now.
        driver_mib: Of the driver's container, in cluster mode.
        said: Who was asked, or why nobody could be.
    """

    master: str
    nodes: int
    slots: int | None = None
    node_mib: int
    driver_mib: int | None = None
    hosts: int | None = None
    memory_mib: int | None = None
    free_mib: int | None = None
    vcores: int | None = None
    free_vcores: int | None = None
    fits: int | None = None
    said: str


class FormerRuns(Message):
    """What the last runs of the name were like: medians, but for `ending_s`.

    Attributes:
        runs: Their ids, the last first.
        rows_s: Rows trained a second, evaluations and checkpoints included.
        epoch_rows: Of the newest run's last whole epoch.
        seconds: By phase, as `result.json` has it.
        evaluation_s: The longest evaluation of a run, and the longest checkpoint.
        checkpoint_nbytes: Of the newest run that has its last checkpoint still; `model_nbytes` likewise.
        ending_s: All that followed the training, of the slowest one.
    """

    runs: tuple[str, ...]
    rows_s: float | None = None
    epoch_rows: int | None = None
    seconds: dict[str, float] = {}
    evaluation_s: float | None = None
    checkpoint_s: float | None = None
    checkpoint_nbytes: int | None = None
    model_nbytes: int | None = None
    ending_s: float = 0.0


class TimesForecast(Message):
    """When things would be, if the run began now and all went as before.

    Attributes:
        train_s: None where no earlier run says how fast, or nobody knows the rows.
        duration_s: Of the whole run; `ends` is when it would be over.
        limit: The setting that ends it by time, e.g. "train.deadline: 06:00 Europe/Berlin"; "" for none.
        due: When it has to be over by that.
        reserve_s: How much of it is left for the end.
        in_time: Whether all epochs are trained by then; else about `epochs_in_time` are.
    """

    begins: str
    train_s: float | None = None
    duration_s: float | None = None
    ends: str | None = None
    limit: str = ""
    due: str | None = None
    reserve_s: float | None = None
    in_time: bool | None = None
    epochs_in_time: float | None = None


class PublishForecast(Message):
    """What `publish` would do with the model.

    Attributes:
        date: Day that the model would be of.
        outcome: "new": it becomes `version`; "newer stands": `version`, of `standing_date`, stays; "published": the run
            has published already.
    """

    date: str
    outcome: Literal["new", "newer stands", "published"]
    version: int
    standing_date: str = ""


class ChampionForecast(Message):
    """The published model that is current."""

    version: int
    run_id: str = ""
    date: str = ""
    metrics: dict[str, dict[str, float]] = {}


class Forecast(Message):
    """All that can be said of a run before anything is held.

    Attributes:
        exit_code: What the run would end with, had it to end before it trains; 0 where it would train, or is done.
        known: What is as it should be, in words; `unknown` could not be looked at.
        init_from: Whose weights it would begin with; "" for new ones.
    """

    name: str
    date: str
    exit_code: int
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
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
    init_from: str = ""


def owner_of_run(step: Step, term: Term) -> OwnerForecast:
    """Returns what a look at a run's newest term has found."""
    states = {Step.IS_OWNED: "owned", Step.LOOK_AGAIN: "silent"}
    state = states.get(step, "released" if term.number and term.released else "nobody")
    owner = {} if term.owner is None else term.owner.model_dump(include={"application", "host", "user", "since"})
    return OwnerForecast.model_validate({"state": state, **owner})
