"""The folder of what a submission ships: program, configuration, code."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sparktf.config import JobConfig
from sparktf.config_load import dump_config
from sparktf.driver.code import Code, archive_code, find_code
from sparktf.driver.spark_log import QUIET_LOG4J
from sparktf.errors import ConfigError, PreflightError
from sparktf.submit.environment import Programs
from sparktf.submit.line import Shipment, private_settings

_SCRIPT = "sparktf_job.py"
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


def shipment_in(folder: Path, code: Sequence[Path] = ()) -> Shipment:
    """Returns the shipment of a folder."""
    return Shipment(str(folder / _SCRIPT), str(folder / _CONFIG), tuple(map(str, code)))


def log4j_in(folder: Path) -> Path:
    """Returns the logging configuration of a folder."""
    return folder / "log4j2.properties"


def stage(config: JobConfig, folder: Path, beside: Path, programs: Programs) -> Shipment:
    """Writes what a submission ships.

    Args:
        folder: That only its owner can enter.
        beside: Folder of the configuration's file, where the user's code is looked for first.

    Raises:
        ConfigError: a module is nowhere to be found, and no archive could hold it.
        PreflightError: sparktf itself is not wholly installed.
    """
    with _importable(beside, *(Path(path) for path in config.submit.py_files)):
        theirs = [_code(module, key, beside, config) for key, module in config.modules.items()]
    # An archive holds sparktf, as an installation on the nodes does; a source tree has to travel.
    ours = None if config.submit.archive else find_code("sparktf")
    code = [archive_code(found, folder) for found in dict.fromkeys((*theirs, ours)) if found is not None]
    shipment = shipment_in(folder, code)
    if private := private_settings(config):
        shipment = replace(shipment, private=str(folder / _PRIVATE))
        # Spark takes one such file: in place of its defaults, which are copied for that.
        defaults = programs.defaults.read_text(encoding="utf-8") if programs.defaults is not None else ""
        settings = "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in private.items())
        Path(shipment.private).touch(mode=0o600)
        Path(shipment.private).write_text(f"{defaults}\n\n{settings}", encoding="utf-8")
    shutil.copyfile(_program(), shipment.script)
    Path(shipment.config).write_text(dump_config(config), encoding="utf-8")
    log4j_in(folder).write_text(QUIET_LOG4J.read_text(encoding="ascii") + _YARN_LOG4J, encoding="ascii")
    return shipment


def _escaped(text: str) -> str:
    """Returns a key or a value as Java's properties files have them."""
    return re.sub(r"([\\:=\s#!])", r"\\\1", text).replace("\n", "n")


def _code(module: str, key: str, beside: Path, config: JobConfig) -> Code | None:
    """Returns the code of the module that a key of the configuration names, None where it need not travel."""
    code = find_code(module)
    if code is None and not config.submit.archive and not _is_found(module):
        raise ConfigError(
            f"{key}: there is no module {module} in {beside}, in the working folder, on PYTHONPATH or in "
            "submit.py_files"
        )
    return code


def _program() -> Path:
    """Returns the program that Spark runs as the driver.

    Raises:
        PreflightError: it is not there.
    """
    spec = importlib.util.find_spec("sparktf.driver.main")
    if spec is None or spec.origin is None:
        raise PreflightError("sparktf is not wholly installed: sparktf/driver/main.py is missing")
    return Path(spec.origin)


@contextmanager
def _importable(*places: Path) -> Iterator[None]:
    """Lets modules be found in `places` and the working folder, for a while."""
    before = sys.path.copy()
    sys.path[:0] = [str(place.absolute()) for place in (*places, Path())]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before


def _is_found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
