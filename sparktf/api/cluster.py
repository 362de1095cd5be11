"""The public entry points: `train`, and `Cluster`, a gang of a Spark application's executors."""

from __future__ import annotations

from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from pyspark.sql import SparkSession
from rich.console import Console

from sparktf.api.edge import with_short_traceback
from sparktf.api.given import Settings, data_section_of, frame_of, given_settings, is_rows
from sparktf.api.program import program_config
from sparktf.api.trained import TrainedRun
from sparktf.config.job import JobConfig
from sparktf.console.console import make_console
from sparktf.driver.code.code_files import code_digest
from sparktf.driver.code.function_module import UserFunction
from sparktf.driver.code.module import importable
from sparktf.driver.gang.gang import Gang
from sparktf.driver.run import Run
from sparktf.driver.spark_site import SparkSite
from sparktf.errors import ConfigError
from sparktf.nightly.night import Night


@with_short_traceback
def train(
    spark: SparkSession,
    config: Any = None,
    data: Any = None,
    *,
    model: UserFunction | str | Any = None,
    prepare: UserFunction | None = None,
    run_id: str | None = None,
    wait: bool = False,
    console: Console | None = None,
    **keywords: Any,
) -> TrainedRun:
    """Trains as the configuration says, on executors of this application.

    Without a configuration keywords make one: `train(spark, df, model=build, inputs={...}, targets={...}, epochs=3)`.

    Args:
        config: A JobConfig, the path of a YAML file, a mapping of sections or settings, which keywords replace; or in
            its place the data.
        data: A DataFrame of Spark's or pandas', an Arrow table or an RDD, where the configuration names no source.
        model: In place of a configuration: a function that returns the compiled model, also of a notebook's cell, its
            name as `module:function`, or a compiled Keras model, whose weights training begins with.
        prepare: As a module's `prepare`, where `model` is a function.
        run_id: Names the run directory; the same id again resumes the run, or repeats the result of one that is done.
            Default: the Spark application's id.
        wait: While another submission owns the run; without it, that is an `OwnedError`.

    Returns:
        The result of a run that is done; result.json holds the same.

    Raises:
        SparkTFError: the run failed; the error's class is that of the root cause, `error.verdict` the exit code, and
            `error.result` the result.
        KeyboardInterrupt: the run was interrupted; everything is stopped.
    """
    console = console or make_console()
    asked = AskedTraining.of("train()", config, data, model=model, prepare=prepare, keywords=keywords)
    with Cluster(spark, asked.config(spark, console), console) as cluster:
        return cluster.train(data=asked.rows, run_id=run_id, wait=wait)


class Cluster:
    """Holds a gang of executors; reserve once, train several times.

        with Cluster(spark, config) as cluster:
            first = cluster.train()
            second = cluster.train(other_config)

    In a notebook it may live across cells: `cluster = Cluster(spark, workers=2)`, `cluster.train(df, model=build, ...)`
    as often as one likes, `cluster.close()`.
    """

    @with_short_traceback
    def __init__(
        self, spark: SparkSession, config: Any = None, console: Console | None = None, **keywords: Any
    ) -> None:
        """Reserves nothing yet: the first training does.

        Args:
            config: Of the first training: a JobConfig, or the path of a YAML file; or a mapping, as keywords; or none,
                and each training makes its own.
            keywords: Without a configuration: settings that all trainings have, such as `workers=2`.

        Raises:
            ConfigError: it is no configuration, or there are keywords beside it.
        """
        given = {} if config is None else given_settings("Cluster()", config)
        if isinstance(given, JobConfig) and keywords:
            raise ConfigError(f"the configuration already has all settings: remove {', '.join(keywords)}")
        self._given = given if isinstance(given, JobConfig) else None
        self._keywords = keywords if isinstance(given, JobConfig) else {**given, **keywords}
        self._spark = spark
        self._console = console or make_console()
        self._site = SparkSite(spark)
        self._code: str | None = None
        self._gang: Gang | None = None if self._given is None else Gang(self._given, self._site, self._console)

    @property
    def config(self) -> JobConfig:
        """The configuration that it was made with.

        Raises:
            ConfigError: it was made without one.
        """
        if self._given is None:
            raise ConfigError("this cluster has no configuration of its own: give one to train()")
        return self._given

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @with_short_traceback
    def train(
        self,
        config: Any = None,
        data: Any = None,
        *,
        model: UserFunction | str | Any = None,
        prepare: UserFunction | None = None,
        run_id: str | None = None,
        wait: bool = False,
        **keywords: Any,
    ) -> TrainedRun:
        """Runs one training; see `sparktf.train`."""
        asked = AskedTraining.of("Cluster.train()", config, data, model=model, prepare=prepare, keywords=keywords)
        made = asked.or_of_cluster(self._given, self._keywords).config(self._spark, self._console)
        rows = frame_of(self._spark, asked.rows)
        digest = code_digest(made)
        # Agents have the code that there was when they began, and there are as many as the first training asked for.
        if self._gang is not None and (self._code not in (None, digest) or not self._gang.suffices(made)):
            self._gang.close()
            self._gang = None
        self._code = digest
        if self._gang is None:
            self._gang = Gang(made, self._site, self._console)
        run_id = _default_run_id(self._spark, made.name) if run_id is None else run_id
        self._site.give(rows)
        with importable(made.code_folder):
            night = Night(self._site.file_systems, self._site.clock, self._site.statistics)
            result = Run(self._gang, made, run_id, night, wait=wait).execute()
        return TrainedRun.of(result, self._site.file_systems.open_runs(result.path), made)

    def close(self) -> None:
        """Stops running trainings, and gives the executors back."""
        if self._gang is not None:
            self._gang.close()


class AskedTraining(NamedTuple):
    """The arguments of a training."""

    given: JobConfig | None  # A whole configuration
    settings: Settings  # In its place: sections and settings by name
    model: UserFunction | str | Any | None
    prepare: UserFunction | None
    rows: Any  # None where the configuration names their source

    @classmethod
    def of(
        cls,
        called: str,
        config: Any,
        data: Any,
        *,
        model: UserFunction | str | Any | None,
        prepare: UserFunction | None,
        keywords: Settings,
    ) -> AskedTraining:
        """Returns the arguments by their meaning.

        Raises:
            ConfigError: one has none, or two of them the same.
        """
        section = data_section_of(called, data)
        rows = data if section is None else None
        if is_rows(config):
            if rows is not None:
                raise ConfigError(
                    "the data is given twice, in the place of a configuration and as data: remove one of them"
                )
            config, rows = None, config
        given = {} if config is None else given_settings(called, config)
        if isinstance(given, JobConfig):
            extra = {"model": model, "prepare": prepare, "data": section}
            beside = [*(name for name, value in extra.items() if value is not None), *keywords]
            if beside:
                raise ConfigError(f"the configuration already has all settings: remove {', '.join(beside)}")
            return cls(given, {}, None, None, rows)
        settings = {**given, **keywords}
        if section is not None:
            settings["data"] = section
        by_mapping = settings.pop("model", None)
        return cls(None, settings, by_mapping if model is None else model, prepare, rows)

    def or_of_cluster(self, given: JobConfig | None, keywords: Settings) -> AskedTraining:
        """Returns these with those of the cluster, where they say nothing of their own."""
        if self.given is not None:
            return self
        if given is not None and self.model is None and not self.settings:
            return self._replace(given=given)
        settings = {**keywords, **self.settings}
        by_cluster = settings.pop("model", None)
        return self._replace(settings=settings, model=by_cluster if self.model is None else self.model)

    def config(self, spark: SparkSession, console: Console) -> JobConfig:
        """Returns the configuration. Raises `ConfigError`."""
        if self.given is not None:
            return self.given
        if self.model is None:
            raise ConfigError(
                "there is no configuration: give one, or model=, a function that returns the compiled model"
            )
        say = partial(console.print, markup=False)
        return program_config(spark, self.model, self.settings, say, prepare=self.prepare)


def _default_run_id(spark: SparkSession, name: str) -> str:
    """Returns the application's id, numbered from a name's second run on: the same for a second YARN attempt."""
    key = f"sparktf.runs.{name}"
    number = int(spark.conf.get(key, "0") or 0) + 1
    spark.conf.set(key, str(number))
    return spark.sparkContext.applicationId + (f"-{number}" if number > 1 else "")
