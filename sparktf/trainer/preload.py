"""What a trainer imports before it trains, and the environment that must be complete before."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

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
_OPTIONAL = ("tf_keras",)


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


def import_all() -> None:
    """Imports all that trainers share, of either flavour of Keras. The model's own module is not among it.

    Raises:
        ImportError: something is not installed, or broken.
    """
    for module in _MODULES:
        importlib.import_module(module)
    for module in _OPTIONAL:
        with suppress(ModuleNotFoundError):
            importlib.import_module(module)
