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

from sparktf.topology import ClusterSpec
from sparktf.wire.trainer_spec import Training
for told, environment, own in ((1, "", 0), (3, "", 0), (3, "2", 0), (3, "", 5)):
    sys.stdout.flush()
    if not os.fork():  # as the nursery does
        if environment:
            os.environ["TF_NUM_INTRAOP_THREADS"] = environment
        prepare_environment(Training.model_construct(cluster=ClusterSpec(), threads=told))
        if own:
            tensorflow.config.threading.set_intra_op_parallelism_threads(own)
        tensorflow.config.threading.set_inter_op_parallelism_threads(1)
        tensorflow.zeros(()).numpy()
        print("threads:", len(os.listdir("/proc/self/task")))
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""


def run(program: str) -> str:
    """Returns what a program prints."""
    # Not the environment of the tests, which may have imported TensorFlow already.
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=kept, capture_output=True, text=True, timeout=120, check=True).stdout.strip()


def test_importing_adds_no_variable_and_leaves_rare_modules_to_who_uses_them_and_threads_are_as_told() -> None:
    """Other threads read the environment meanwhile. The executor's environment and the model's code come first."""
    *imported, one, three, environments, models = run(PROGRAM).splitlines()
    assert imported == [
        "added:",
        "True {'keras.src.wrappers.sklearn_wrapper'} False",
        "{'keras.src.visualization.plot_image_gallery'} True",
    ]
    told = [int(line.removeprefix("threads: ")) for line in (one, three, environments, models)]
    assert [count - told[0] for count in told] == [0, 2, 1, 4]
