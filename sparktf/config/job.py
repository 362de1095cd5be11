"""The configuration of a run: frozen pydantic models, one per section of the YAML file.

Each field's description is its documentation: docs/use/configuration.md is generated from it.
Loading (YAML, `--set`, `--date`) is in `sparktf.config.load`.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    Field,
    PositiveFloat,
    PositiveInt,
    PrivateAttr,
    model_validator,
)

from sparktf.config.data_section import DataConfig
from sparktf.config.gate_section import GateConfig
from sparktf.config.nodes import ClusterConfig
from sparktf.config.predict_section import PredictConfig
from sparktf.config.publish import ExportConfig, OutputConfig, PublishConfig
from sparktf.config.section import FunctionName, Section, Switch
from sparktf.config.submit import SubmitConfig
from sparktf.config.table_moment import MOMENT_KEYS
from sparktf.config.timeouts import TimeoutsConfig
from sparktf.config.train import PUBLISHED, TrainConfig
from sparktf.errors import ConfigError
from sparktf.rundir import NAME_LENGTH, NAME_PATTERN
from sparktf.topology import GangShape


class CheckpointConfig(Section):
    """When a checkpoint is committed. The end of each epoch always commits one."""

    KEY: ClassVar = "checkpoint"

    every_steps: PositiveInt | None = Field(default=None, description="Updates between two commits.")
    every_seconds: PositiveFloat | None = Field(default=600.0, description="Commit at least this often, in seconds.")
    keep: PositiveInt = Field(default=3, description="Newest checkpoints kept; older ones are deleted.")


class SecurityConfig(Section):
    """The control channel."""

    KEY: ClassVar = "security"

    tls: Switch = Field(
        default="auto",
        description="Mutual TLS with a certificate authority made for the run. `auto`: where executors are on other "
        "machines; on one machine a unix socket serves. `off` is refused where Spark protects its own traffic.",
    )


WITHOUT_GENERATIONS = (
    "needs sparktf's own connections, since over TensorFlow's collectives the loss of any worker ends the attempt: set "
    "cluster.collectives: sparktf, or leave it out"
)
"""What is wrong with `train.min_workers`, and what to do."""

_NOT_PLANNED = {"ready", "checks", "rebalance", "locality", "prefetch_mib", "cache", "cache_mib", "staging_mib"} | {
    "max_bad_rows"
}
"""Settings of `data` that may differ when a run is resumed."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The folder and the day that a configuration was read for; not part of equality."""

    folder: Path | None = field(default=None, compare=False)
    date: datetime.date | None = field(default=None, compare=False)


class JobConfig(Section):
    """One run's whole configuration. Frozen; build it with `load_config` or from keyword arguments."""

    KEY: ClassVar = ""

    name: Annotated[str, Field(pattern=NAME_PATTERN, max_length=NAME_LENGTH)] = Field(
        description="Name of the training; runs of one name share a folder."
    )
    model: FunctionName = Field(
        description="`module:function` that returns a compiled Keras model (`build`), or a low-level `train(node)`."
    )
    params: dict[str, Any] = Field(
        default={},
        description="Handed to the model function as they are; JSON-able. Where the configuration is shown or stored, "
        "what looks like a secret (`password`, `api_key`, ...) is `*********(redacted)`.",
    )
    data: DataConfig = Field(description="What is read.")
    cluster: ClusterConfig = Field(default=ClusterConfig(), description="The gang of nodes.")
    train: TrainConfig = Field(default=TrainConfig(), description="The training.")
    checkpoint: CheckpointConfig = Field(default=CheckpointConfig(), description="Checkpoints.")
    output: OutputConfig = Field(description="Where results go.")
    export: ExportConfig = Field(default=ExportConfig(), description="What the model is written as.")
    publish: PublishConfig | None = Field(
        default=None,
        description="Whether the model is put where readers find it ([publishing.md](../nights/publishing.md)).",
    )
    gate: GateConfig | None = Field(
        default=None,
        description="What a new model must show to take the published one's place ([gate.md](../nights/gate.md)).",
    )
    predict: PredictConfig | None = Field(
        default=None, description="What `jobs/predict.py` scores with the model ([predict.md](predict.md))."
    )
    timeouts: TimeoutsConfig = Field(default=TimeoutsConfig(), description="Upper bounds of every wait.")
    security: SecurityConfig = Field(default=SecurityConfig(), description="The control channel.")
    submit: SubmitConfig = Field(default=SubmitConfig(), description="For `sparktf submit`.")

    _place: _Place = PrivateAttr(default=_Place())

    @model_validator(mode="after")
    def _every_replica_gets_a_row(self) -> Self:
        if self.train.batch_size < self.cluster.replicas:
            raise ValueError(
                f"train.batch_size: {self.train.batch_size} rows are fewer than the {self.cluster.replicas} replicas "
                "that share them"
            )
        return self

    @model_validator(mode="after")
    def _strategy_fits_data(self) -> Self:
        if not self.data.rebalance and not self.cluster.updates_together:
            raise ValueError(
                "data.rebalance: off cannot be replayed update by update under cluster.strategy: "
                f"{self.cluster.strategy}, whose workers take rows as they come to need them: leave it on"
            )
        return self

    @model_validator(mode="after")
    def _evaluator_has_rows(self) -> Self:
        data = self.data
        if self.cluster.evaluator and data.validation is None:
            raise ValueError("cluster.evaluator: true needs rows to evaluate on: give data.validation")
        if self.cluster.evaluator and (data.mode == "spark" or not data.may_be_direct):
            asked = "mode: spark" if data.mode == "spark" else f"format: {data.format}"
            raise ValueError(
                f"data.{asked} is read through Spark, and an evaluator reads files itself: set cluster.evaluator: false"
            )
        return self

    @model_validator(mode="after")
    def _enough_workers_aggregate(self) -> Self:
        wanted, cluster = self.train.replicas_to_aggregate, self.cluster
        if wanted is None:
            return self
        if cluster.updates_together:
            raise ValueError(
                f"train.replicas_to_aggregate: {wanted} needs cluster.strategy: parameter_server; under "
                f"{cluster.strategy} all workers make every update"
            )
        if wanted > cluster.workers:
            raise ValueError(
                f"train.replicas_to_aggregate: {wanted} is more than the workers there are: set it to at most "
                f"cluster.workers: {cluster.workers}"
            )
        return self

    @model_validator(mode="after")
    def _enough_workers_are_there(self) -> Self:
        fewest, cluster = self.train.min_workers, self.cluster
        if fewest == 1:
            return self
        if not cluster.updates_together:
            raise ValueError(
                f"train.min_workers: {fewest} is for workers that make each update together: under cluster.strategy: "
                f"{cluster.strategy} set cluster.min_workers"
            )
        if fewest > cluster.shape.workers:
            raise ValueError(
                f"train.min_workers: {fewest} is more than the workers there are: set it to at most "
                f"cluster.workers: {cluster.shape.workers}"
            )
        if cluster.collectives == "tensorflow":
            raise ValueError(f"train.min_workers: {fewest} {WITHOUT_GENERATIONS}")
        return self

    @model_validator(mode="after")
    def _classes_are_of_one_target(self) -> Self:
        if self.train.classes is not None and len(self.data.targets) > 1:
            raise ValueError(
                "train.classes is for a model with one output, and data.targets names several: leave it out"
            )
        if self.train.class_weight and len(self.data.targets) > 1:
            raise ValueError("train.class_weight is for a model with one output: weight the rows by data.sample_weight")
        if self.train.class_weight and self.data.sample_weight is not None:
            raise ValueError(
                "train.class_weight and data.sample_weight both weight the rows: multiply them in one column, and "
                "leave class_weight out"
            )
        return self

    @model_validator(mode="after")
    def _best_is_known(self) -> Self:
        if self.train.keep == "best" and self.data.validation is None:
            raise ValueError("train.keep: best needs validation metrics to compare epochs by: give data.validation")
        return self

    @model_validator(mode="after")
    def _watched_metrics_are_known(self) -> Self:
        validates, evaluator = self.data.validation is not None, self.cluster.evaluator
        for key, watched in self.train.watched().items():
            if complaint := watched.complaint(key, validates=validates, evaluator=evaluator):
                raise ValueError(complaint)
        if evaluator and self.train.ends_by_time and self.train.reserve is None:
            raise ValueError(
                "train.deadline and train.max_seconds need train.reserve with cluster.evaluator: true, because workers "
                "do not know how long the evaluator takes: give train.reserve"
            )
        return self

    @model_validator(mode="after")
    def _pruned_models_are_published(self) -> Self:
        if self.output.keep_models is not None and self.publish is None:
            raise ValueError("output.keep_models needs published models: give publish, if only as {}")
        mlflow = self.output.mlflow
        if mlflow is not None and mlflow.registered_model is not None and self.publish is None:
            raise ValueError("output.mlflow.registered_model needs published models: give publish, if only as {}")
        return self

    @model_validator(mode="after")
    def _nights_begin_from_files(self) -> Self:
        if self.train.init_from == PUBLISHED and "keras" not in self.export.formats:
            raise ValueError(
                f"train.init_from: {PUBLISHED} begins from the .keras file of the published model, which "
                "export.formats leaves out: add keras to it"
            )
        return self

    @model_validator(mode="after")
    def _gate_has_what_it_compares(self) -> Self:
        if self.gate is None:
            return self
        if self.data.validation is None:
            raise ValueError("gate needs held-out rows to compare models on: give data.validation")
        if self.publish is None:
            raise ValueError("gate needs publish, which it decides on: give publish, if only as {}")
        return self

    @property
    def shape(self) -> GangShape:
        """The gang's size, and the fewest workers it goes on with: at least as many as an update needs."""
        least = max(self.cluster.min_workers, self.train.replicas_to_aggregate or 1, self.train.min_workers)
        return self.cluster.model_copy(update={"min_workers": least}).shape

    @property
    def keeps_leader(self) -> str:
        """Why no other worker of a synchronous gang can go on in its leader's place; "" where one can."""
        if self.train.callbacks is not None:
            return "what train.callbacks remember is the leader's alone"
        if self.gate is not None:
            return "the leader alone compares models for the gate"
        return ""

    @property
    def steps_per_call(self) -> int:
        """The most updates in one call into TensorFlow, or in one execution of a worker."""
        return self.train.steps_per_call or self.cluster.traits.steps_per_call

    @property
    def model_module(self) -> str:
        return self.model.partition(":")[0]

    @property
    def model_function(self) -> str:
        return self.model.partition(":")[2]

    @property
    def modules(self) -> dict[str, str]:
        """The user's modules, by the key that names them."""
        return {key: name.partition(":")[0] for key, name in self._functions.items()}

    def function_of(self, key: str) -> str:
        """Returns the function named by one of the keys of `modules`."""
        return self._functions[key].partition(":")[2]

    @property
    def _functions(self) -> dict[str, str]:
        named = {"model": self.model, "data.source": self.data.source, "train.callbacks": self.train.callbacks}
        return {key: name for key, name in named.items() if name is not None}

    @property
    def code_folder(self) -> Path | None:
        """The folder of the configuration file, which is searched for modules first; None without a file."""
        return self._place.folder

    def in_folder(self, folder: Path) -> Self:
        """Returns the configuration as if read from a file in `folder`."""
        found = self.model_copy()
        found._place = replace(self._place, folder=folder.absolute())
        return found

    @property
    def date(self) -> datetime.date | None:
        """The day that the configuration was read for (`--date`); None without one."""
        return self._place.date

    def for_day(self, date: datetime.date) -> Self:
        """Returns the configuration as if read for `date`; templates are filled already."""
        found = self.model_copy()
        found._place = replace(self._place, date=date)
        return found

    def predicted(self) -> tuple[PredictConfig, datetime.date]:
        """Returns the section `predict` and the day to score. Raises `ConfigError` if either is missing."""
        if self.predict is None:
            raise ConfigError("the configuration has no section predict: give one, with predict.output")
        if self.date is None:
            raise ConfigError("predictions need a day: give --date")
        return self.predict, self.date

    def plan_hash(self) -> str:
        """Hash of all that the stored plan and its cursors depend on; a resumed run must have the same one."""
        # Left out where they are not given, so that runs that began before there were such keys go on.
        absent = {key for key in MOMENT_KEYS if getattr(self.data, key) is None}
        absent |= self.data.foreign_keys
        absent |= set() if self.data.options else {"options"}
        depends = {
            "data": self.data.model_dump(exclude=_NOT_PLANNED | absent),
            "seed": self.train.seed,
            "name": self.name,
        }
        return hashlib.sha256(json.dumps(depends, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def config_hash(self) -> str:
        """Hash of the whole configuration, for checkpoint manifests."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()[:16]
