"""`sparktf check`: everything that can be checked of a run before it is submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from sparktf.config.job import JobConfig
from sparktf.driver.code.module import binds, importable, search_path
from sparktf.driver.code.tried_model import try_model
from sparktf.driver.plan.files import list_source
from sparktf.driver.plan.locality import nowhere
from sparktf.driver.plan.not_plain import NotPlainError, left_to_spark
from sparktf.driver.plan.paths import normalised
from sparktf.driver.plan.plan import Plan
from sparktf.driver.plan.planned_formats import planned_format
from sparktf.driver.plan.planner import feed_spec, plan_source
from sparktf.driver.plan.spark_reads import SparkReads
from sparktf.driver.run_checks import Basis, Findings, Scene, look_at_run
from sparktf.driver.source.choice import check_lake_may_be_fed, check_opens, choose_feed, is_read_directly
from sparktf.driver.source.hdfs_blocks import is_on_hdfs, locate_or_warn
from sparktf.driver.source.origin import Origin
from sparktf.driver.spark.application import file_systems_of, start_session
from sparktf.driver.spark.masters import HERE, master_of
from sparktf.errors import SparkTFError
from sparktf.sequence import PartitionValue
from sparktf.storage.file_systems import FileSystems

_HERE = {"spark.master": HERE, "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


class _NeedsSparkError(Exception):
    """A predicate over partitions, which Spark alone evaluates."""


def check_run(
    config: JobConfig, master: str, systems: FileSystems, say: Callable[[str], None], *, deep: bool
) -> Findings:
    """Does everything that precedes holding executors: preflight and plan. Reads no rows, and does not call `prepare`.

    Args:
        master: The run's Spark master; the check itself runs on this machine.
        say: Takes a line of progress.
        deep: Start Spark, if planning needs it, and write to the output.
    """
    found = Findings()
    found.unknown += () if deep else ("output.path can be written",)
    with found.part():
        config = normalised(config, systems.normalise)
    scene = Scene(
        config, master_of(master).slots(config.submit.executor_cores), systems, has=(Basis.WRITING,) if deep else ()
    )
    look_at_run(scene, found)
    plan = None
    with found.part():
        plan = plan_here(config, systems, found, say, deep=deep)
        if plan is not None:
            found.known += _data_lines(plan)
    if plan is not None and plan.staged:
        look_at_run(replace(scene, has=(*scene.has, Basis.FED)), found, scene.has)
    if not deep:
        found.unknown.append(_TAKES)
        found.left += _metrics(config)
    elif plan is None or found.errors:
        found.left += (_TAKES, *_metrics(config))
    else:
        with found.part():
            _try_model(config, plan, found)
    if config.train.init_from is not None:
        found.left.append(f"whether train.init_from: {config.train.init_from} exists and fits the model")
    return found


def _try_model(config: JobConfig, plan: Plan, found: Findings) -> None:
    """Builds the model, and compares it with its features. Raises as `try_model`."""
    takes_assets = binds(config.model_module, "prepare", search_path(config.code_folder)) is not False
    try:
        known = try_model(config, plan.spec)
    except SparkTFError as error:
        if not takes_assets:
            raise
        found.left += (f"{_TAKES} (the model was not built, since prepare did not run: {error})", *_metrics(config))
        return
    if known:
        found.known.append(f"model: {known}")
    else:
        found.left += (_TAKES, *_metrics(config))


_TAKES = "whether the model takes data.inputs and learns data.targets"


def _metrics(config: JobConfig) -> Iterator[str]:
    """Yields errors in the metrics that only a built model shows."""
    if config.gate is not None:
        yield f"whether the model has the gate's metrics {', '.join(config.gate.metrics)}"


def plan_here(
    config: JobConfig,
    file_systems: FileSystems,
    found: Findings,
    say: Callable[[str], None],
    *,
    deep: bool,
    located: bool = False,
) -> Plan | None:
    """Returns the plan that the run would make; None if that needs Spark, and it may not be started.

    Args:
        deep: Start Spark on this machine if planning needs it.
        located: Include the hosts of the files' blocks, which needs Spark on HDFS.

    Raises:
        SparkTFError: planning failed.
    """
    data = config.data
    if data.source_key is None:
        return None
    is_lake = is_read_directly(data) and data.mode != "spark"
    if is_lake and not (located and is_on_hdfs(str(data.path))):
        try:
            return _plan_lake(config, file_systems, found, deep=deep)
        except NotPlainError as error:
            check_lake_may_be_fed(config, error)
            if not deep:
                found.unknown.append(f"data.path, which Spark reads: {error}")
                return None
        except _NeedsSparkError:
            if not deep:
                return None
    elif not deep:
        found.unknown.append(f"data.{data.source_key}, which Spark reads")
        return None
    say("starting Spark on this machine, to look at the data as the run would")
    spark = start_session(config, _HERE)
    try:
        with importable(config.code_folder):
            systems = file_systems_of(spark)
            locate = partial(locate_or_warn, spark, found.unknown.append) if located else nowhere
            return choose_feed(spark, config, Origin(spark, config), systems, locate, found.known.append)
    finally:
        spark.stop()


def _plan_lake(config: JobConfig, file_systems: FileSystems, found: Findings, *, deep: bool) -> Plan:
    check_opens(config, file_systems)
    try:
        return plan_source(config, file_systems.open, _no_spark)
    except _NeedsSparkError:
        if not deep:
            _check_columns(config, file_systems, found)
        raise


@left_to_spark()
def _check_columns(config: JobConfig, file_systems: FileSystems, found: Findings) -> None:
    """Checks the columns of the first file alone; the predicate decides which other files a run reads."""
    path = str(config.data.path)
    storage = file_systems.open(path)
    reads = SparkReads()
    source = list_source(storage, path, "data.path", reads)
    form = planned_format(config.data.format)
    schema, _ = form.columns(storage, source, config.data, reads, looks_in=False)
    feed_spec(config, schema, source.partitions)
    found.known.append(
        f"data: {len(source.files):,} {form.format.title} files at {path}; the columns are those of the first one"
    )
    validation = config.data.validation
    predicates = {"data.where": config.data.where, "data.validation.where": validation and validation.where}
    used = " and ".join(key for key, predicate in predicates.items() if predicate is not None)
    found.unknown.append(f"{used}, which Spark evaluates, and the other files")


def _no_spark(
    names: Sequence[str], types: Sequence[str], rows: Sequence[tuple[PartitionValue, ...]], where: str
) -> list[bool]:
    raise _NeedsSparkError


def _data_lines(plan: Plan) -> Iterator[str]:
    for stream, table in plan.tables.items():
        yield f"data: {plan.rows(stream):,} rows of {stream} in {len(table.rows):,} row groups"
    for stream in plan.staged:
        yield f"data: {stream} is fed by Spark; rows are counted as they come"
