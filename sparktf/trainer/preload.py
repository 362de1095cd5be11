"""The imports of a trainer, and the environment that must be complete before them."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_ADDED_BY_TENSORFLOW = {
    "ENABLE_RUNTIME_UPTIME_TELEMETRY": "1",
    "HDF5_PLUGIN_PATH": "disable",
    "KMP_DUPLICATE_LIB_OK": "True",
    "KMP_INIT_AT_FORK": "FALSE",
    "TF2_BEHAVIOR": "1",
    "TPU_ML_PLATFORM": "Tensorflow",
    "TPU_ML_PLATFORM_VERSION": "",
}
"""Variables that importing TensorFlow sets. Setting an existing variable replaces its value; a new one reallocates the
C library's table, and a gRPC thread that reads it at that moment ends the process: SIGSEGV in getenv."""

_MODULES = (
    "tensorflow",
    "keras",
    "sparktf.trainer.__main__",
    "sparktf.trainer.sync.training",
    "sparktf.trainer.parameter_server.coordinator",
    "sparktf.trainer.parameter_server.worker",
    "sparktf.trainer.parameter_server.ps",
)
_LARGE = ("tensorflow", "keras", "tf_keras")
_ON_YARN = ("sparktf.storage.hdfs.hdfs",)
"""Imported in YARN containers, whose runs keep their files on HDFS."""

_PUT_OFF = (
    "keras.wrappers",
    "keras._tf_keras.keras.wrappers",
    "keras.src.visualization",
    "keras.visualization",
    "keras._tf_keras.keras.visualization",
)
"""Keras's wrappers for scikit-learn and its pictures, which no trainer of a compiled model needs. If scikit-learn is
installed, they import it, SciPy's statistics and pandas: a quarter of the processor time of TensorFlow's import; and
Matplotlib, if that is: a tenth."""


def complete_environment() -> None:
    """Sets the variables that TensorFlow reads or adds, before it is imported and before gRPC starts a thread."""
    for name, value in _ADDED_BY_TENSORFLOW.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@contextmanager
def without_collector() -> Iterator[None]:
    """Disables the garbage collector during imports, and exempts the imported objects from it afterwards.

    Imports leave almost no garbage, and the collector would scan all imported objects again and again: a third of the
    time of TensorFlow's import.
    """
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if is_on:
            gc.enable()


def put_off_rare() -> None:
    """Defers the import of modules that hardly any model uses to their first use."""
    for name in _PUT_OFF:
        if name not in sys.modules:
            sys.modules[name] = _PutOff(name)


class _PutOff(ModuleType):
    """Stands for a module until one of its names is used."""

    def __getattr__(self, name: str) -> Any:
        # `inspect` and others ask all modules for such names, without a use for this one.
        if name.startswith("__") and name not in ("__all__", "__path__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = importlib.import_module(self.__name__)
        self.__dict__.update(vars(module))  # for holders of this object
        return getattr(module, name)


def import_without_collector(names: Collection[str] = _LARGE) -> None:
    """Has the garbage collector rest while such modules are imported, whoever imports them in this process."""
    sys.meta_path.insert(0, _Uncollected(names))


class _Uncollected(MetaPathFinder):
    """Finds modules as ever, and has them loaded without the garbage collector."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self._names else None
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            with without_collector():
                load(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def import_all(also: Sequence[str] = ()) -> None:
    """Imports the modules that trainers share, but not the model's; and those of `also` that are installed.

    Raises:
        ImportError: a module is not installed, or broken.
    """
    put_off_rare()
    for module in (*_MODULES, *(_ON_YARN if "CONTAINER_ID" in os.environ else ())):
        importlib.import_module(module)
    for module in also:
        with suppress(ModuleNotFoundError):
            importlib.import_module(module)
