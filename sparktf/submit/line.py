"""The `spark-submit` line of a configuration, as a pure function."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sparktf.config.job import JobConfig
from sparktf.config.predict_section import PREDICT
from sparktf.driver.spark.allowed_losses import allowed_failures
from sparktf.driver.spark.masters import master_to_submit_to
from sparktf.redaction import redacted
from sparktf.submit.environment import Programs

ARCHIVE_PYTHON = "./env/bin/python"

LOOKS = "nodes"
"""The word that has the driver look at the nodes."""

_JOB = "sparktf-job"


@dataclass(frozen=True, slots=True)
class Shipment:
    """Files that travel with a submission."""

    script: str  # The driver's program
    config: str  # The resolved configuration; the user's code is beside it
    archive: str  # Both of them, as a zip
    py_files: tuple[str, ...] = ()  # sparktf's code, if it is not installed
    # File of settings that are secret and so not on the command line, which any local user can read; or ""
    private: str = ""


@dataclass(frozen=True, slots=True)
class ScoringJob:
    """A scoring job, submitted in client mode; it is not a run."""

    model: str | None = None  # Replaces `predict.model`


def private_settings(config: JobConfig) -> dict[str, str]:
    """Returns the settings of `submit.conf` that hold a secret."""
    return {key: value for key, value in config.submit.conf.items() if redacted(value, key) != value}


def submit_line(
    config: JobConfig,
    shipment: Shipment,
    run_id: str | None,
    programs: Programs,
    *,
    scoring: ScoringJob | None = None,
    wait: bool = False,
    detach: bool = False,
    looks: Path | None = None,
) -> list[str]:
    """Returns the command that submits a run or a scoring job.

    Args:
        detach: Do not wait for the end.
        looks: Only look at the nodes that a run would get, and write what is found to this file.
    """
    submit, master = config.submit, master_to_submit_to(config)
    in_cluster = submit.deploy_mode == "cluster"
    archives = (f"{submit.archive}#env",) if submit.archive and master.unpacks_archives else ()
    config_path = shipment.config
    if in_cluster:  # then the driver has it in its container's folder
        archives = (*archives, f"{shipment.archive}#{_JOB}")
        config_path = f"{_JOB}/{PurePosixPath(config_path).name}"
    line = [programs.spark_submit, "--master", submit.master, "--deploy-mode", submit.deploy_mode]
    if submit.proxy_user:
        line += ["--proxy-user", submit.proxy_user]
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
    leaves = master.detached() if detach else {}
    for key, value in {**_settings(config, programs, trains=scoring is None), **submit.conf, **leaves}.items():
        if key not in private:
            line += ["--conf", f"{key}={value}"]
    date = config.date and config.date.isoformat()  # its templates are filled; the run is to know its day all the same
    given = {"--config": config_path, "--date": date, "--run-id": run_id, "--model": scoring and scoring.model}
    if looks is not None:
        return [*line, shipment.script, LOOKS, "--config", config_path, "--to", str(looks)]
    options = [part for option, value in given.items() if value for part in (option, value)]
    return [*line, shipment.script, *([PREDICT] if scoring else []), *options, *(("--wait",) if wait else ())]


def show_line(line: Sequence[str]) -> str:
    """Returns a command for a shell, one option a line."""
    shown = shlex.quote(line[0])
    for before, part in itertools.pairwise(line):
        joint = " " if before.startswith("--") else " \\\n  "
        shown += joint + shlex.quote(part)
    return shown


def _settings(config: JobConfig, programs: Programs, *, trains: bool) -> dict[str, str]:
    submit, master = config.submit, master_to_submit_to(config)
    settings = {
        "spark.app.name": f"sparktf {config.name}",
        "spark.driver.memory": f"{submit.driver_memory_mib}m",
        # Those that score get no others, and Spark counts their losses as it does for any job.
        "spark.executor.instances": str(master.executors(config) if trains else config.cluster.workers),
        "spark.executor.cores": str(submit.executor_cores),
        "spark.executor.memory": f"{submit.executor_memory_mib}m",
        "spark.dynamicAllocation.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": ARCHIVE_PYTHON
        if submit.archive and master.unpacks_archives
        else master.python(config, programs.python),
    }
    settings |= allowed_failures(config) if trains else {}
    settings |= submit.login
    if submit.deploy_mode == "client":
        settings["spark.pyspark.driver.python"] = programs.driver_python
    return settings | master.settings(config, trains=trains)
