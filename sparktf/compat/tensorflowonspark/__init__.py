"""TensorFlowOnSpark's API (2.2.5) on sparktf's agents and feeds: `import tensorflowonspark` finds this.

    python -m sparktf.compat.tensorflowonspark script.py ...        runs a script unchanged
    import sparktf.compat.tensorflowonspark                         as the first line of one does the same

May import the guests' gang, TFRecords and scoring; it ever keeps TensorFlowOnSpark's names at its surface, and its own
names behind it. The modules that a node imports import no pyspark.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import logging
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

ALIAS = "tensorflowonspark"
VERSION = "2.2.5"
MODULES = {
    "TFCluster": "tf_cluster",
    "TFManager": "tf_manager",
    "TFNode": "tf_node",
    "TFParallel": "tf_parallel",
    "TFSparkNode": "tf_spark_node",
    "compat": "tf_versions",
    "dfutil": "tf_frames",
    "gpu_info": "tf_gpus",
    "marker": "tf_marker",
    "pipeline": "tf_pipeline",
    "reservation": "tf_reservation",
    "util": "tf_util",
}
"""TensorFlowOnSpark's modules -> ours."""

_LOG_FORMAT = "%(asctime)s %(levelname)s (%(threadName)s-%(process)d) %(message)s"

_SHIM = f"from {__name__} import install\n\ninstall()\n"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds TensorFlowOnSpark's modules here."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns where a module is, if it is one of them."""
        package, _, name = fullname.partition(".")
        if package != ALIAS or (name and name not in MODULES):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=not name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Returns our module."""
        _, _, name = spec.name.partition(".")
        if name:
            return importlib.import_module(f"{__name__}.{MODULES[name]}")
        found = ModuleType(ALIAS, "sparktf in the place of TensorFlowOnSpark.")
        vars(found)["__version__"] = VERSION
        show_log()
        return found

    def exec_module(self, module: ModuleType) -> None:
        """It is executed already."""


def install() -> None:
    """Makes `import tensorflowonspark` find our modules in this process, from now on."""
    if not any(type(finder).__name__ == _Finder.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    there = sys.modules.get(ALIAS)
    if there is not None:  # the module of `write_shim`, during its import: the finder finds its submodules
        there.__path__ = []
        vars(there)["__version__"] = VERSION
        show_log()


def show_log() -> None:
    """Shows what programs log, as the import of TensorFlowOnSpark does: they call `logging.info` alone."""
    logging.basicConfig(level=logging.INFO, format=_LOG_FORMAT)
    logging.getLogger("py4j").setLevel(logging.WARNING)


def write_shim(path: Path) -> Path:
    """Writes a zip for `--py-files`, in which `tensorflowonspark` is ours; returns its path."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{ALIAS}/__init__.py", _SHIM)
    return path


install()
