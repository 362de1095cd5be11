"""TensorFlow imported while Spark starts, on `local[n]`, where the trainers will be on the driver's machine.

The nursery lives as long as this process: the application's next run has it as well.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from sparktf.config.job import JobConfig
from sparktf.driver.code.module import search_path
from sparktf.executor.forking import Nursery, named_in, wants_nursery
from sparktf.executor.trainer_process import trainer_environment

_begun: dict[tuple[str, ...], Nursery] = {}


def begin(config: JobConfig) -> str:
    """Has the trainers' modules imported, if they are not.

    Returns:
        The folder where agents find the process; "" if they need none, or find it themselves.
    """
    if not wants_nursery(config.cluster.nursery):
        return ""
    also = named_in(config.model_module, search_path(config.code_folder))
    folder = _folder()
    if also in _begun and _begun[also].has_ended():
        _begun.pop(also).close()
    if also not in _begun:
        try:
            _begun[also] = Nursery(folder, trainer_environment(folder), also, folder)
        except OSError:
            return ""  # agents say why it cannot be
    return str(folder)


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="sparktf-"))
    atexit.register(_end, folder)
    return folder


def _end(folder: Path) -> None:
    for nursery in _begun.values():
        nursery.close()
    shutil.rmtree(folder, ignore_errors=True)
