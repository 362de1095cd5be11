"""What a trainer imports before it trains, and the environment that must be complete before."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
"""What importing TensorFlow adds to the environment. A name that is there already has its value replaced; a new one
moves the C library's table, and a thread of gRPC's that reads it in that moment ends the process: SIGSEGV in getenv."""

_MODULES = (
    "tensorflow",
    "keras",
    "sparktf.trainer.__main__",
    "sparktf.trainer.node.failure",
    "sparktf.trainer.sync.training",
    "sparktf.trainer.parameter_server.coordinator",
    "sparktf.trainer.parameter_server.worker",
    "sparktf.trainer.parameter_server.ps",
)
_ON_YARN = ("sparktf.storage.hdfs.hdfs_cluster",)
"""What a container of YARN's has a use for: runs there keep their files on HDFS."""

_PUT_OFF = ("keras.wrappers", "keras._tf_keras.keras.wrappers")
"""Keras's wrappers for scikit-learn, which no trainer of a compiled model needs. Where that is installed, they load it,
all of SciPy's statistics and pandas: a quarter of the processor time that TensorFlow's import takes."""


def complete_environment() -> None:
    """Sets what TensorFlow reads or adds, before it is imported and before there is a thread of gRPC's."""
    for name, value in _ADDED_BY_TENSORFLOW.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@contextmanager
def without_collector() -> Iterator[None]:
    """Keeps Python's garbage collector away from imports, which leave it next to nothing, and from what they bring.

    It would go through all that is imported again and again: a third of the time that TensorFlow takes.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def put_off_wrappers() -> None:
    """Has modules that next to nobody uses loaded by who does: until then Keras finds something in their place."""
    for name in _PUT_OFF:
        if name not in sys.modules:
            sys.modules[name] = _PutOff(name)


class _PutOff(ModuleType):
    """Stands for a module until something in it is asked for."""

    def __getattr__(self, name: str) -> Any:
        # Who looks through all modules, as `inspect` does, asks for such names and wants nothing of this one.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = importlib.import_module(self.__name__)
        self.__dict__.update(vars(module))  # for who holds this one
        return getattr(module, name)


def import_all(also: Sequence[str] = ()) -> None:
    """Imports all that trainers share. The model's own module is not among it.

    Args:
        also: More modules, where they are installed.

    Raises:
        ImportError: something is not installed, or broken.
    """
    put_off_wrappers()
    for module in (*_MODULES, *(_ON_YARN if "CONTAINER_ID" in os.environ else ())):
        importlib.import_module(module)
    for module in also:
        with suppress(ModuleNotFoundError):
            importlib.import_module(module)
