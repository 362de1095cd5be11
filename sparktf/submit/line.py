"""The `spark-submit` line of a configuration: a pure function, and how it is shown."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from sparktf.config.job import JobConfig
from sparktf.config.predict_section import PREDICT
from sparktf.driver.spark.encryption import AUTHENTICATE, ENCRYPT, check_encryption
from sparktf.driver.spark.yarn_memory import Container, driver_container, executor_container, settled
from sparktf.knobs import KNOBS
from sparktf.redaction import redacted
from sparktf.submit.environment import Programs

ARCHIVE_PYTHON = "./env/bin/python"

_JOB = "sparktf-job"

_LOSSES = 32
"""So often a node may be lost while its attempt goes on, before Spark gives up all of them: each time, its agent's task
fails. Spark's own number is 4. Whatever fails in `prepare` on the executors is tried as often, so it is not more."""

_LOST_OF_NODE = 2
"""So many lost executors for each node Spark allows an application by itself, and 3 at least."""


@dataclass(frozen=True, slots=True)
class Shipment:
    """Files that travel with a submission.

    Attributes:
        script: The driver's program.
        config: The resolved configuration, with the user's code beside it.
        archive: Both of them, as a zip.
        py_files: sparktf's code, where it is not installed.
        private: Settings that no command line may show, which any user of this machine could read; "" without any.
    """

    script: str
    config: str
    archive: str
    py_files: tuple[str, ...] = ()
    private: str = ""


@dataclass(frozen=True, slots=True)
class ScoringJob:
    """A job that scores, in place of one that trains. It is no run, and in client mode.

    Attributes:
        model: In place of `predict.model`.
    """

    model: str | None = None


def is_yarn(config: JobConfig) -> bool:
    """Whether the run is submitted to YARN."""
    return config.submit.master.startswith("yarn")


def executors(config: JobConfig) -> int:
    """Returns how many executors the application starts with: one for each node.

    On YARN only one, the fewest that Spark starts with: the driver asks for the others at the hosts of the data, which
    it does not know before, and once the data is there.
    """
    asks_later = config.cluster.placement == "data" or config.data.ready is not None
    return 1 if is_yarn(config) and asks_later else config.cluster.nodes


def containers(config: JobConfig) -> tuple[Container, ...]:
    """Returns the containers that YARN is asked for, one of each kind."""
    submit = config.submit
    found = [_executor(config)]
    if submit.deploy_mode == "cluster":
        found.append(driver_container(submit.driver_memory_mib))
    return tuple(settled(container, submit.conf) for container in found)


def private_settings(config: JobConfig) -> dict[str, str]:
    """Returns those of `submit.conf` that hold a secret."""
    return {key: value for key, value in config.submit.conf.items() if redacted(value, key) != value}


def check_security(config: JobConfig) -> None:
    """Refuses what preflight would refuse in the driver.

    Raises:
        PreflightError: the run would go below what Spark protects.
    """
    if is_yarn(config):
        check_encryption({**_protection(config), **config.submit.conf}, config.security.tls)


def submit_line(
    config: JobConfig,
    shipment: Shipment,
    run_id: str | None,
    programs: Programs,
    *,
    scoring: ScoringJob | None = None,
    wait: bool = False,
    detach: bool = False,
) -> list[str]:
    """Returns the command that submits a run, or a job that scores; `detach`: and leaves it to YARN."""
    submit = config.submit
    in_cluster = submit.deploy_mode == "cluster"
    archives = (f"{submit.archive}#env",) if submit.archive and is_yarn(config) else ()
    config_path = shipment.config
    if in_cluster:  # then the driver has it in its container's folder
        archives = (*archives, f"{shipment.archive}#{_JOB}")
        config_path = f"{_JOB}/{PurePosixPath(config_path).name}"
    line = [programs.spark_submit, "--master", submit.master, "--deploy-mode", submit.deploy_mode]
    for option, values in (
        ("--py-files", (*shipment.py_files, *submit.py_files)),
        ("--files", submit.files),
        ("--archives", archives),
    ):
        if values:
            line += [option, ",".join(values)]
    if shipment.private:
        line += ["--properties-file", shipment.private]
    private = private_settings(config)
    leaves = {"spark.yarn.submit.waitAppCompletion": "false"} if detach else {}
    for key, value in {**_settings(config, programs, trains=scoring is None), **submit.conf, **leaves}.items():
        if key not in private:
            line += ["--conf", f"{key}={value}"]
    date = config.date and config.date.isoformat()  # its templates are filled; the run is to know its day all the same
    given = {"--config": config_path, "--date": date, "--run-id": run_id, "--model": scoring and scoring.model}
    options = [part for option, value in given.items() if value for part in (option, value)]
    return [*line, shipment.script, *([PREDICT] if scoring else []), *options, *(("--wait",) if wait else ())]


def show_line(line: Sequence[str]) -> str:
    """Returns a command as a shell reads it, an option a line."""
    shown = shlex.quote(line[0])
    for before, part in itertools.pairwise(line):
        joint = " " if before.startswith("--") else " \\\n  "
        shown += joint + shlex.quote(part)
    return shown


def _settings(config: JobConfig, programs: Programs, *, trains: bool) -> dict[str, str]:
    submit = config.submit
    settings = {
        "spark.app.name": f"sparktf {config.name}",
        "spark.driver.memory": f"{submit.driver_memory_mib}m",
        # Those that score get no others, and Spark counts their losses as it does for any job.
        "spark.executor.instances": str(executors(config) if trains else config.cluster.workers),
        "spark.executor.cores": str(submit.executor_cores),
        "spark.executor.memory": f"{submit.executor_memory_mib}m",
        "spark.dynamicAllocation.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": ARCHIVE_PYTHON if submit.archive and is_yarn(config) else programs.python,
    }
    if trains and config.cluster.outlives_losses:
        settings["spark.task.maxFailures"] = str(_LOSSES)
    if submit.deploy_mode == "client":
        settings["spark.pyspark.driver.python"] = programs.driver_python
    if not is_yarn(config):
        return settings
    return settings | _yarn_settings(config, trains=trains)


def _executor(config: JobConfig) -> Container:
    submit = config.submit
    return executor_container(submit.executor_memory_mib, config.cluster.node_memory, submit.executor_cores)


def _yarn_settings(config: JobConfig, *, trains: bool) -> dict[str, str]:
    submit = config.submit
    overheads = {"spark.executor.memoryOverhead": _executor(config).overhead_mib}
    # On this machine, a second ApplicationMaster would wait in vain for a driver that has failed.
    attempts = 1
    if submit.deploy_mode == "cluster":
        overheads["spark.driver.memoryOverhead"] = driver_container(submit.driver_memory_mib).overhead_mib
        attempts = submit.max_app_attempts
    return {
        **{key: f"{mib}m" for key, mib in overheads.items()},
        "spark.yarn.queue": submit.queue,
        "spark.yarn.tags": f"sparktf,{config.name}",
        "spark.yarn.maxAppAttempts": str(attempts),
        **(_losses(config) if trains else {}),
        "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": f"{KNOBS.resource_manager_wait_s * 1000:.0f}",
        **_protection(config),
    }


def _losses(config: JobConfig) -> dict[str, str]:
    """Returns how many executors may be lost: Spark would count those that it starts with."""
    losses = config.cluster.nodes * (_LOSSES if config.cluster.outlives_losses else _LOST_OF_NODE)
    return {"spark.executor.maxNumFailures": str(max(losses, 3))}


def _protection(config: JobConfig) -> dict[str, str]:
    """Returns what closes Spark's network and disks; YARN brings the application's secret to its containers itself."""
    if config.submit.conf.get(AUTHENTICATE, "").lower() == "false":
        return {}  # Spark encrypts nothing without it, and refuses to be asked
    return {
        AUTHENTICATE: "true",
        ENCRYPT: "true",
        "spark.io.encryption.enabled": "true",
        # The NodeManager's own service would have to know of it, and is there for dynamic allocation.
        "spark.shuffle.service.enabled": "false",
    }
