"""A run from a packed environment, on nodes that know nothing of the one it was packed from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.submission import REPO, Submission, digits_config, put_digits

from minihadoop import ClusterConfig, MiniHadoop, down, up

# Runs in the trainer. Whatever it prints goes to the trainer's log.
MODEL = """\
import sys

import keras


def build(params, assets):
    if not hasattr(sys, "_once"):
        sys._once = True
        print("PREFIX", sys.prefix)
        for name, module in sorted(sys.modules.items()):
            where = getattr(module, "__file__", None)
            if where and name.partition(".")[0] in ("sparktf", "tensorflow", "keras", "numpy", "pyarrow", "pydantic"):
                print("MODULE", name, where)
    pixels = keras.Input((64,), name="pixels")
    model = keras.Model(pixels, keras.layers.Dense(10, activation="softmax", name="label")(pixels))
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model
"""


@pytest.fixture(scope="module")
def packing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """The archive, and the process that packs it while the cluster starts."""
    archive = tmp_path_factory.mktemp("archive") / "env.tar"  # uncompressed: quicker by far than 800 MB of gzip
    command = [sys.executable, "-m", "sparktf.commands.cli", "pack", "--output", str(archive)]
    with subprocess.Popen(command, cwd=REPO, env={**os.environ, "PYTHONPATH": str(REPO)}) as process:
        try:
            yield archive, process
        finally:
            process.kill()
    shutil.rmtree(archive.parent)


@pytest.fixture(scope="module")
def one_host(packing: object) -> Iterator[MiniHadoop]:
    """A cluster whose host unpacks the archive once for both containers.

    Containers inherit their NodeManager's environment: it must not lead them to the sources.
    """
    name = f"test-{os.getpid()}-pack"
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.delenv("PYTHONPATH", raising=False)
            # An archive of few blocks: each costs its time.
            cluster = up(ClusterConfig(name, hosts=1, block_mib=256, replication=1), print)
        yield cluster
    finally:
        down(name, print)


@pytest.mark.more(
    "unit/test_pack.py::test_it_runs_elsewhere_without_anything_of_the_original",
    "unit/test_submit_line.py::test_the_line_is_the_one_on_file",
)
@pytest.mark.timeout(1200)
def test_every_module_of_driver_agent_and_trainer_comes_from_the_archive(
    one_host: MiniHadoop, packing: tuple[Path, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    archive, process = packing
    assert process.wait(400) == 0
    (tmp_path / "shown.py").write_text(MODEL, encoding="utf-8")
    with one_host.inside():
        lake = put_digits(one_host, tmp_path / "lake")
        config = digits_config(
            tmp_path, lake, cluster={"workers": 1}, submit={"archive": f"file:{archive}"}, timeouts={"reserve": 400}
        )
        config["model"] = "shown:build"
        with Submission(one_host, tmp_path, config, "--run-id", "packed") as submission:
            assert submission.wait(600) == 0, submission.output()
        logs = f"/runs/{tmp_path.name}/digits/packed/logs"
        (log,) = one_host.hdfs.names(logs)
        lines = one_host.hdfs.get(f"{logs}/{log}").decode().splitlines()
    (prefix,) = {line.split()[1] for line in lines if line.startswith("PREFIX")}
    modules = dict(line.split()[1:] for line in lines if line.startswith("MODULE"))
    assert prefix.endswith("/env")
    assert prefix != sys.prefix
    assert {"sparktf.trainer.node.place", "tensorflow", "keras", "pyarrow", "pydantic"} <= modules.keys()
    assert not [f"{name}: {where}" for name, where in modules.items() if "/env/" not in where]
    assert "./env/bin/python" in submission.output()
