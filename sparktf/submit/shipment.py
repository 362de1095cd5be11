"""The files that a submission ships: program, configuration, code."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from sparktf.config.job import JobConfig
from sparktf.config.load import dump_config
from sparktf.driver.code.code_files import archive_files, code_files, digest_of, package_files, write_files
from sparktf.driver.code.module import require_module, search_path
from sparktf.driver.spark.log import QUIET_LOG4J
from sparktf.errors import PreflightError
from sparktf.submit.environment import Programs
from sparktf.submit.line import Shipment, private_settings

_SCRIPT = "sparktf_job.py"
_CODE = "sparktf-job"
_CONFIG = "sparktf-job.yaml"
_PRIVATE = "private.conf"

# Reports of YARN and Kubernetes are read by us, each on one line.
_REPORTS_LOG4J = """
logger.client.name = org.apache.spark.deploy.yarn.Client
logger.client.level = info
logger.client.additivity = false
logger.client.appenderRef.cluster.ref = cluster
logger.pods.name = org.apache.spark.deploy.k8s.submit
logger.pods.level = info
logger.pods.additivity = false
logger.pods.appenderRef.cluster.ref = cluster
appender.cluster.type = Console
appender.cluster.name = cluster
appender.cluster.target = SYSTEM_ERR
appender.cluster.layout.type = PatternLayout
appender.cluster.layout.pattern = @cluster %enc{%m}{CRLF}%n
"""


def log4j_in(folder: Path) -> Path:
    """Returns the logging configuration of a folder."""
    return folder / "log4j2.properties"


def stage(config: JobConfig, folder: Path, beside: Path, programs: Programs, *, trains: bool = True) -> Shipment:
    """Writes the files of a submission, with the user's code beside the configuration, where the driver looks first.

    Args:
        folder: Accessible to its owner only.
        beside: Folder of the configuration file, which is searched first for the user's code.
        trains: Whether the model's code is needed; a scoring job only needs the code of its rows.

    Raises:
        ConfigError: a module is not found, also not in an archive; or there is too much code.
        PreflightError: sparktf itself is not completely installed.
    """
    modules = {key: name for key, name in config.modules.items() if trains or key == "data.source"}
    more = _places(config.submit.py_files)
    if not config.submit.archive and not any("://" in file for file in config.submit.py_files):
        for key, module in modules.items():
            require_module(key, module, beside, more)
    job = folder / _CODE
    job.mkdir()
    (job / _CONFIG).write_text(dump_config(config), encoding="utf-8")
    write_files(code_files(modules, search_path(beside, more)), job)
    everything = {file.relative_to(job).as_posix(): file for file in sorted(job.rglob("*")) if file.is_file()}
    archive = archive_files(everything, folder / f"{_CODE}-{digest_of(everything)}.zip")
    script = folder / _SCRIPT
    shutil.copyfile(_program(), script)
    log4j_in(folder).write_text(QUIET_LOG4J.read_text(encoding="ascii") + _REPORTS_LOG4J, encoding="ascii")
    return Shipment(
        str(script), str(job / _CONFIG), str(archive), _sparktf(config, folder), _private(config, folder, programs)
    )


def _private(config: JobConfig, folder: Path, programs: Programs) -> str:
    """Writes the secret settings; returns the file, "" for none."""
    private = private_settings(config)
    if not private:
        return ""
    # Spark takes one such file: in place of its defaults, which are copied for that.
    defaults = programs.defaults.read_text(encoding="utf-8") if programs.defaults is not None else ""
    settings = "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in private.items())
    file = folder / _PRIVATE
    file.touch(mode=0o600)
    file.write_text(f"{defaults}\n\n{settings}", encoding="utf-8")
    return str(file)


def _escaped(text: str) -> str:
    """Escapes a key or a value for a Java properties file."""
    return re.sub(r"([\\:=\s#!])", r"\\\1", text).replace("\n", "n")


def _places(py_files: Sequence[str]) -> list[str]:
    """Returns where Python finds the modules of `--py-files`: in a zip, and in the folder of a file."""
    local = (Path(file) for file in py_files if "://" not in file)
    return [str((file.parent if file.suffix == ".py" else file).absolute()) for file in local]


def _sparktf(config: JobConfig, folder: Path) -> tuple[str, ...]:
    """Returns an archive of sparktf itself, if the nodes have none.

    A packed environment contains it, as does an installation on the nodes; a source tree has to travel.
    """
    files = {} if config.submit.archive else package_files("sparktf", search_path(None))
    return (str(archive_files(files, folder / f"sparktf-{digest_of(files)}.zip")),) if files else ()


def _program() -> Path:
    """Returns the driver's program. Raises `PreflightError` if it is missing."""
    spec = importlib.util.find_spec("sparktf.submit.driver_script")
    if spec is None or spec.origin is None:
        raise PreflightError(
            "sparktf is not completely installed: sparktf/submit/driver_script.py is missing: install it again"
        )
    return Path(spec.origin)
