"""What is left of a log for whoever looks for a failure in its last lines."""

from __future__ import annotations

from pathlib import Path

from sparktf.executor.trainer_process import tail_of

NOISE = """\
2026-11-20 02:13:05.104211: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on. You may see slightly \
different numerical results due to floating-point round-off errors. To turn them off, set `TF_ENABLE_ONEDNN_OPTS=0`.
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
E0000 00:00:1733000000.101832   18174 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register \
factory for plugin cuDNN when one has already been registered
E0000 00:00:1733000000.108221   18174 cuda_blas.cc:1418] Unable to register cuBLAS factory: Attempting to register
W0000 00:00:1733000000.121222   18174 computation_placer.cc:177] computation placer already registered.
2026-11-20 02:13:06.314211: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is optimized
To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the appropriate flags.
E0000 00:00:1795747200.256039   18174 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: Failed call
"""
FAILURE = """\
E0000 00:00:1733000001.000001   18174 completion_queue.cc:9] Connection reset by peer
Traceback (most recent call last):
  File "zoo.py", line 3, in build

    layer = keras.layers.Dense(units)
ValueError: Received an invalid value for `units`
"""


def log(folder: Path, text: str) -> Path:
    path = folder / "worker-0.log"
    path.write_text(text, "utf-8")
    return path


def test_a_failure_is_not_hidden_by_what_tensorflow_says_of_the_machine(tmp_path: Path) -> None:
    said = [line for line in FAILURE.splitlines() if line]
    assert tail_of(log(tmp_path, NOISE + FAILURE + NOISE)).splitlines() == said
    assert tail_of(log(tmp_path, FAILURE + 100 * NOISE)).splitlines() == said
    assert tail_of(log(tmp_path, "begins\n" + 50 * FAILURE)).splitlines() == (50 * said)[-40:]


def test_a_log_of_nothing_else_is_shown_as_it_is(tmp_path: Path) -> None:
    assert tail_of(log(tmp_path, NOISE)).splitlines() == NOISE.splitlines()
    assert tail_of(log(tmp_path, "")) == ""
