"""The public entry points: `train`, and `Cluster`, a gang of a Spark application's executors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

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

Data = DataFrame | RDD[Any]


def train(
    spark: SparkSession,
    config: JobConfig | Data | None = None,
    data: Data | None = None,
    *,
    model: UserFunction | str | None = None,
    prepare: UserFunction | None = None,
    run_id: str | None = None,
    wait: bool = False,
    console: Console | None = None,
    **keywords: Any,
) -> TrainedRun:
    """Trains as the configuration says, on executors of this application.

    Without a configuration keywords make one: `train(spark, df, model=build, inputs={...}, targets={...}, epochs=3)`.

    Args:
        config: The configuration, or in its place the data.
        data: A DataFrame or RDD, where the configuration names no source.
        model: In place of a configuration: a function that returns the compiled model, also of a notebook's cell, or
            its name as `module:function`.
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
    _check_given("train()", config, data)
    console = console or make_console()
    made, data = _config_of(spark, console, config, data, model, prepare, keywords)
    with Cluster(spark, made, console) as cluster:
        return cluster.train(data=data, run_id=run_id, wait=wait)


class Cluster:
    """Holds a gang of executors; reserve once, train several times.

        with Cluster(spark, config) as cluster:
            first = cluster.train()
            second = cluster.train(other_config)

    In a notebook it may live across cells: `cluster = Cluster(spark, workers=2)`, `cluster.train(df, model=build, ...)`
    as often as one likes, `cluster.close()`.
    """

    def __init__(
        self, spark: SparkSession, config: JobConfig | None = None, console: Console | None = None, **keywords: Any
    ) -> None:
        """Reserves nothing yet: the first training does.

        Args:
            config: Of the first training; or none, and each training makes its own.
            keywords: Without a configuration: settings that all trainings have, such as `workers=2`.

        Raises:
            ConfigError: it is no configuration, or there are keywords beside it.
        """
        if config is not None and not isinstance(config, JobConfig):
            raise ConfigError(f"Cluster() takes a JobConfig, not {_in_words(config)}")
        if config is not None and keywords:
            raise ConfigError(f"the configuration already has all settings: remove {', '.join(keywords)}")
        self._given = config
        self._keywords = keywords
        self._spark = spark
        self._console = console or make_console()
        self._site = SparkSite(spark)
        self._code: str | None = None
        self._gang: Gang | None = None if config is None else Gang(config, self._site, self._console)

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

    def train(
        self,
        config: JobConfig | Data | None = None,
        data: Data | None = None,
        *,
        model: UserFunction | str | None = None,
        prepare: UserFunction | None = None,
        run_id: str | None = None,
        wait: bool = False,
        **keywords: Any,
    ) -> TrainedRun:
        """Runs one training; see `sparktf.train`."""
        _check_given("Cluster.train()", config, data)
        if model is None and not keywords and not isinstance(config, JobConfig):
            data = config if data is None else data
            config = self.config
        elif not isinstance(config, JobConfig):
            keywords = {**self._keywords, **keywords}
        made, data = _config_of(self._spark, self._console, config, data, model, prepare, keywords)
        digest = code_digest(made)
        # Agents have the code that there was when they began, and there are as many as the first training asked for.
        if self._gang is not None and (self._code not in (None, digest) or not self._gang.suffices(made)):
            self._gang.close()
            self._gang = None
        self._code = digest
        if self._gang is None:
            self._gang = Gang(made, self._site, self._console)
        run_id = _default_run_id(self._spark, made.name) if run_id is None else run_id
        self._site.give(data)
        with importable(made.code_folder):
            night = Night(self._site.file_systems, self._site.clock, self._site.statistics)
            result = Run(self._gang, made, run_id, night, wait=wait).execute()
        return TrainedRun.of(result, self._site.file_systems.open(result.path))

    def close(self) -> None:
        """Stops running trainings, and gives the executors back."""
        if self._gang is not None:
            self._gang.close()


def _config_of(
    spark: SparkSession,
    console: Console,
    config: JobConfig | Data | None,
    data: Data | None,
    model: UserFunction | str | None,
    prepare: UserFunction | None,
    keywords: dict[str, Any],
) -> tuple[JobConfig, Data | None]:
    if isinstance(config, JobConfig):
        given = [*(["model"] if model is not None else []), *(["prepare"] if prepare is not None else []), *keywords]
        if given:
            raise ConfigError(f"the configuration already has all settings: remove {', '.join(given)}")
        return config, data
    if config is not None and data is not None:
        raise ConfigError("the data is given twice, in the place of a configuration and as data: remove one of them")
    if model is None:
        raise ConfigError("there is no configuration: give one, or model=, a function that returns the compiled model")
    made = program_config(spark, model, keywords, partial(console.print, markup=False), prepare=prepare)
    return made, config if data is None else data


def _check_given(called: str, config: Any, data: Any) -> None:
    if config is not None and not isinstance(config, (JobConfig, DataFrame, RDD)):
        raise ConfigError(f"{called} takes a JobConfig, a DataFrame or an RDD, not {_in_words(config)}")
    if data is not None and not isinstance(data, (DataFrame, RDD)):
        raise ConfigError(f"{called} takes a DataFrame or an RDD as data, not {_in_words(data)}")


def _in_words(value: Any) -> str:
    """Describes an argument that is neither a configuration nor data, and the remedy."""
    kind = type(value)
    said = f"a {kind.__name__}" if kind.__module__ == "builtins" else f"a {kind.__module__}.{kind.__name__}"
    if isinstance(value, Mapping):
        return f"{said}: make a configuration of a mapping by JobConfig.model_validate"
    if isinstance(value, (str, Path)):
        return f"{said}: read a configuration file by load_config, and name data files by path="
    return f"{said}: make a DataFrame of it by spark.createDataFrame"


def _default_run_id(spark: SparkSession, name: str) -> str:
    """Returns the application's id, numbered from a name's second run on: the same for a second YARN attempt."""
    key = f"sparktf.runs.{name}"
    number = int(spark.conf.get(key, "0") or 0) + 1
    spark.conf.set(key, str(number))
    return spark.sparkContext.applicationId + (f"-{number}" if number > 1 else "")
