"""The folder of what a submission ships: program, configuration, code."""

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

# YARN's reports are read by us, each on one line.
_YARN_LOG4J = """
logger.client.name = org.apache.spark.deploy.yarn.Client
logger.client.level = info
logger.client.additivity = false
logger.client.appenderRef.yarn.ref = yarn
appender.yarn.type = Console
appender.yarn.name = yarn
appender.yarn.target = SYSTEM_ERR
appender.yarn.layout.type = PatternLayout
appender.yarn.layout.pattern = @yarn %enc{%m}{CRLF}%n
"""


def log4j_in(folder: Path) -> Path:
    """Returns the logging configuration of a folder."""
    return folder / "log4j2.properties"


def stage(config: JobConfig, folder: Path, beside: Path, programs: Programs, *, trains: bool = True) -> Shipment:
    """Writes what a submission ships: the user's code goes where the driver looks first, beside the configuration.

    Args:
        folder: That only its owner can enter.
        beside: Folder of the configuration's file, where the user's code is looked for first.
        trains: What scores needs no code but that of its rows: the model is exported whole.

    Raises:
        ConfigError: a module is nowhere to be found, and no archive could hold it; or there is too much code.
        PreflightError: sparktf itself is not wholly installed.
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
    log4j_in(folder).write_text(QUIET_LOG4J.read_text(encoding="ascii") + _YARN_LOG4J, encoding="ascii")
    return Shipment(
        str(script), str(job / _CONFIG), str(archive), _sparktf(config, folder), _private(config, folder, programs)
    )


def _private(config: JobConfig, folder: Path, programs: Programs) -> str:
    """Writes the settings that hold a secret; returns where, "" without any."""
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
    """Returns a key or a value as Java's properties files have them."""
    return re.sub(r"([\\:=\s#!])", r"\\\1", text).replace("\n", "n")


def _places(py_files: Sequence[str]) -> list[str]:
    """Returns where Python finds the modules of `--py-files`: in a zip, and in the folder of a file."""
    local = (Path(file) for file in py_files if "://" not in file)
    return [str((file.parent if file.suffix == ".py" else file).absolute()) for file in local]


def _sparktf(config: JobConfig, folder: Path) -> tuple[str, ...]:
    """Returns the archive of sparktf itself, where it does not lie on the nodes.

    An archive of an environment holds it, as an installation there does; a source tree has to travel.
    """
    files = {} if config.submit.archive else package_files("sparktf", search_path(None))
    return (str(archive_files(files, folder / f"sparktf-{digest_of(files)}.zip")),) if files else ()


def _program() -> Path:
    """Returns the program that Spark runs as the driver.

    Raises:
        PreflightError: it is not there.
    """
    spec = importlib.util.find_spec("sparktf.submit.driver_script")
    if spec is None or spec.origin is None:
        raise PreflightError("sparktf is not wholly installed: sparktf/submit/driver_script.py is missing")
    return Path(spec.origin)
