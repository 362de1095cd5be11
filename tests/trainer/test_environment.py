"""The environment of a trainer's process, and what it imports."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import inspect, os, sys
from types import SimpleNamespace
from sparktf.trainer.__main__ import prepare_environment
from sparktf.trainer.preload import import_all
prepare_environment(SimpleNamespace(cluster=SimpleNamespace(nodes=lambda: [])))
before = set(os.environ)
import_all()
import sparktf.trainer.life, keras, tensorflow
print("added:", *sorted(set(os.environ) - before))
inspect.getmodule(keras.Model)
put_off = not {"sklearn", "keras.src.wrappers", "matplotlib"} & set(sys.modules)
held = keras.wrappers
loaded = [keras.wrappers.SKLearnClassifier, tensorflow.keras.wrappers.SKLearnClassifier, held.SKLearnClassifier]
print(put_off, {found.__module__ for found in loaded}, hasattr(keras.wrappers, "Nothing"))
held = keras.visualization
loaded = [keras.visualization.plot_image_gallery, tensorflow.keras.visualization.plot_image_gallery]
loaded += [held.plot_image_gallery, keras.src.visualization.plot_image_gallery.plot_image_gallery]
print({found.__module__ for found in loaded}, "matplotlib" in sys.modules)
"""


def run(program: str) -> str:
    """Returns what a program prints."""
    # Not the environment of the tests, which may have imported TensorFlow already.
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=kept, capture_output=True, text=True, timeout=120, check=True).stdout.strip()


def test_importing_tensorflow_adds_no_variable_and_leaves_wrappers_and_pictures_to_who_uses_them() -> None:
    """Other threads read the environment meanwhile."""
    assert run(PROGRAM).splitlines() == [
        "added:",
        "True {'keras.src.wrappers.sklearn_wrapper'} False",
        "{'keras.src.visualization.plot_image_gallery'} True",
    ]
