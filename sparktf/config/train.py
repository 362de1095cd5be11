"""The section `train` of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, PositiveInt, model_validator

from sparktf.config.duration import Duration
from sparktf.config.patience import EarlyStoppingConfig, ReduceLrConfig, WatchedMetric
from sparktf.config.section import FunctionName, Section
from sparktf.results.time_limit import TimeOfDay
from sparktf.rundir import check_run_id

PUBLISHED = "published"
RUN = "run:"
"""Prefix of an `train.init_from` that names a run."""


def _time_of_day(text: str) -> str:
    TimeOfDay.of(text)
    return text


def _init_from(text: str) -> str:
    if text.startswith(RUN):
        check_run_id(text.removeprefix(RUN))
    elif not text.strip():
        raise ValueError("is empty: say published, run:<run id> or a path")
    return text


class TrainConfig(Section):
    """The training itself."""

    KEY: ClassVar = "train"

    epochs: PositiveInt = Field(default=1, description="Passes over the training stream.")
    max_steps: PositiveInt | None = Field(
        default=None, description="Stop after this many updates, also inside an epoch."
    )
    batch_size: PositiveInt = Field(
        default=256,
        description="Rows per optimizer update, over all workers; each brings its share. Under `parameter_server`: of "
        "the one worker that makes the update.",
    )
    replicas_to_aggregate: PositiveInt | None = Field(
        default=None,
        description="Under `parameter_server`: each update is the mean, weighted by rows, of the first this many "
        "gradients that workers have computed at its step; workers beyond them are backups. Default: each gradient is "
        "an update of its own ([async.md](async.md)).",
    )
    min_workers: PositiveInt = Field(
        default=1,
        description="Synchronous training over sparktf's own connections trains nothing with fewer workers than this. "
        "Where losses leave fewer, they wait up to `timeouts.replace` for another one, with what they have; then that "
        "is committed, and a new attempt begins once there are as many. The global batch is the same with any number: "
        "fewer workers make the same updates, only more slowly ([sync.md](sync.md#too-few-workers)). Under "
        "`parameter_server` it is `cluster.min_workers`.",
    )
    steps_per_call: PositiveInt | None = Field(
        default=None,
        description="Updates run by one call into TensorFlow at most, under `parameter_server` by one execution on a "
        "worker: as many as take about half a second. Default: 32, and 256 under `parameter_server`.",
    )
    validation_batch_size: PositiveInt = Field(default=4096, description="Rows per worker and evaluation step.")
    seed: int = Field(default=0, ge=0, description="Seed of initial weights, shuffling and the validation fraction.")
    keep: Literal["last", "best"] = Field(
        default="last",
        description="Which weights are exported: those of the last epoch, or of the epoch with the best validation "
        "metrics, whose checkpoint is kept beside the newest ones. `best` needs `data.validation`.",
    )
    keep_metric: str = Field(
        default="loss",
        min_length=1,
        description="Validation metric by which `keep: best` compares epochs, by Keras's name, with or without `val_`.",
    )
    keep_mode: Literal["auto", "min", "max"] = Field(
        default="auto",
        description="Whether the best metric is the smallest or the largest. `auto`: by its name, as Keras does.",
    )
    early_stopping: EarlyStoppingConfig | None = Field(
        default=None, description="When the training ends because a metric gets no better."
    )
    reduce_lr_on_plateau: ReduceLrConfig | None = Field(
        default=None, description="When the learning rate is lowered because a metric gets no better."
    )
    callbacks: FunctionName | None = Field(
        default=None,
        description="`module:function`, called as `function(params)`, that returns Keras callbacks. The chief tells "
        "them of each epoch ([stopping.md](../nights/stopping.md)).",
    )
    class_weight: dict[int, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        default={},
        description="Class of the only target -> weight of the loss of its rows in training, as in Keras's `fit`; "
        "classes that are not named weigh 1. The metrics of held-out rows are not weighted.",
    )
    classes: Annotated[int, Field(ge=2)] | None = Field(
        default=None,
        description="Number of classes that the only target has. A model whose output tells fewer apart is refused "
        "before it trains.",
    )
    deadline: Annotated[str, AfterValidator(_time_of_day)] | None = Field(
        default=None,
        description="When the model has to be published: a time of day with its time zone, `06:00 Europe/Berlin`; the "
        "first such time after the run is submitted. Training ends early enough.",
    )
    max_seconds: Duration | None = Field(
        default=None, gt=0, description="The same, as a length of time since the run was submitted."
    )
    reserve: Duration | None = Field(
        default=None,
        description="How long before `deadline` or `max_seconds` training ends. Default: a minute plus 1.5 times the "
        "longest evaluation and two checkpoints so far, or 1.5 times the end of an earlier run.",
    )
    init_from: Annotated[str, AfterValidator(_init_from)] | None = Field(
        default=None,
        description="The model whose weights training begins with: `published`, the one that `CURRENT` names; "
        "`run:<run id>`, that of another run of this name; or the path of a `.keras` file, or of its folder "
        "([warm-start.md](../nights/warm-start.md)). Default: the model function's own initial weights.",
    )
    init_tables: dict[str, str] = Field(
        default={},
        description="Name of an embedding layer -> the vocabulary of its rows, where the model does not show it: a key "
        "of the assets that `prepare` returns, or the name of a lookup layer.",
    )
    init_optimizer: bool = Field(
        default=False, description="Whether the optimizer's state is taken over too, but for its learning rate."
    )
    full_every: Duration | None = Field(
        default=None,
        gt=0,
        description="Train from scratch, in spite of `init_from`, once the last training from scratch behind the "
        "weights is this old, by the dates of the runs.",
    )
    max_attempts: PositiveInt = Field(
        default=3,
        description="Attempts before infrastructure failures end the run; executors that are taken back cost none.",
    )

    @model_validator(mode="after")
    def _reserve_is_of_a_limit(self) -> Self:
        if self.reserve is not None and not self.ends_by_time:
            raise ValueError(
                "reserve has no effect without deadline or max_seconds: give one of them, or leave reserve out"
            )
        return self

    @model_validator(mode="after")
    def _warm_start_has_a_source(self) -> Self:
        if self.init_from is not None:
            return self
        for key in ("init_tables", "init_optimizer", "full_every"):
            if getattr(self, key):
                raise ValueError(f"{key} applies to a warm start: give init_from, the model that training begins with")
        return self

    @property
    def init_run(self) -> str | None:
        """The run that `init_from` names, if any."""
        named = self.init_from or ""
        return named.removeprefix(RUN) if named.startswith(RUN) else None

    @property
    def init_path(self) -> str | None:
        """The path that `init_from` names, if any."""
        return None if self.init_from in (None, PUBLISHED) or self.init_run is not None else self.init_from

    def watched(self) -> Mapping[str, WatchedMetric]:
        """Returns the sections that watch a metric after each epoch, by key."""
        sections: dict[str, WatchedMetric | None] = {
            "train.early_stopping": self.early_stopping,
            "train.reduce_lr_on_plateau": self.reduce_lr_on_plateau,
        }
        return {key: section for key, section in sections.items() if section is not None}

    @property
    def ends_by_time(self) -> bool:
        """Whether training has a time limit."""
        return self.deadline is not None or self.max_seconds is not None

    @property
    def may_stop(self) -> bool:
        """Whether training may end after any epoch."""
        return self.early_stopping is not None or self.callbacks is not None or self.ends_by_time

    def only_for_built_models(self) -> tuple[str, ...]:
        """Returns the keys that are set although a `train(node)` function ignores them."""
        best = ("train.keep: best",) if self.keep == "best" else ()
        times = [f"train.{key}" for key in ("deadline", "max_seconds") if getattr(self, key) is not None]
        callbacks = () if self.callbacks is None else ("train.callbacks",)
        init = () if self.init_from is None else ("train.init_from",)
        weights = ("train.class_weight",) if self.class_weight else ()
        classes = () if self.classes is None else ("train.classes",)
        few = ("train.min_workers",) if self.min_workers > 1 else ()
        return (*best, *self.watched(), *callbacks, *times, *init, *weights, *classes, *few)
