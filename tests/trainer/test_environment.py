"""The environment of a trainer's process, and what it imports."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import os
from types import SimpleNamespace
from sparktf.trainer.__main__ import prepare_environment
prepare_environment(SimpleNamespace(cluster=SimpleNamespace(nodes=lambda: [])))
before = set(os.environ)
import sparktf.trainer.life, tensorflow, keras
print("added:", *sorted(set(os.environ) - before))
"""

IMPORTS = """
import inspect, sys
from sparktf.trainer.preload import complete_environment, import_all
complete_environment()
import_all()
import keras, tensorflow
inspect.getmodule(keras.Model)
put_off = not {"sklearn", "keras.src.wrappers"} & set(sys.modules)
held = keras.wrappers
loaded = [keras.wrappers.SKLearnClassifier, tensorflow.keras.wrappers.SKLearnClassifier, held.SKLearnClassifier]
print(put_off, {found.__module__ for found in loaded}, hasattr(keras.wrappers, "Nothing"))
"""


def run(program: str) -> str:
    """Returns what a program prints."""
    # Not the environment of the tests, which may have imported TensorFlow already.
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=kept, capture_output=True, text=True, timeout=120, check=True).stdout.strip()


def test_importing_tensorflow_adds_no_variable_while_other_threads_read_them() -> None:
    assert run(PROGRAM) == "added:"


def test_wrappers_for_scikit_learn_are_loaded_only_by_who_uses_them() -> None:
    assert run(IMPORTS) == "True {'keras.src.wrappers.sklearn_wrapper'} False"
