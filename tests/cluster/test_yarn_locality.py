"""Executors beside the blocks, and each worker reading its own: measured at the hosts' cables, and reported.

And what comes out of it: the rows that Spark feeds there from a DataFrame, and the weights that the same plan gives on
one machine.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import pytest
from cluster.click_run import MODELS, ClickRun, plan_clicks
from cluster.clicks import FILES, GROUPS_PER_FILE, ROWS, click_job, put_clicks
from cluster.submission import SMALL_CONF, tags
from integration.application import Application
from integration.sandbox import Sandbox

from minihadoop import MiniHadoop
from sparktf.results.result import NodeInput, RunResult

EPOCHS = 2

# What goes from host to host besides rows: code, checkpoints' copies, gradients.
OTHER_NBYTES = 40e6


class Measured:
    """A run, which rows it trained on, and what went over the cables of the hosts meanwhile."""

    def __init__(self, hadoop: MiniHadoop, folder: Path, job: dict[str, Any], run_id: str) -> None:
        hosts = [host.name for host in hadoop.config.workers]
        before = {host: hadoop.link_bytes(host) for host in hosts}
        sums = folder / "sums"
        sums.mkdir()
        told = {**job, "params": {"sums": str(sums)}}
        with ClickRun(hadoop, folder, told, *tags(job["name"]), run_id=run_id) as run:
            assert run.wait(within_s=400) == 0, run.output()
        self.run = run
        self.path = run.run_path
        self.output = run.output()
        self.sent = sum((hadoop.link_bytes(host) - before[host]).sent for host in hosts)
        self.result: RunResult = run.result(run_id)
        kept = [json.loads(path.read_text()) for path in sums.glob("*.json")]
        self.rows = sum(one["rows"] for one in kept)
        self.checksum = sum(one["sum"] for one in kept) % 2**64

    @property
    def nbytes(self) -> int:
        """Bytes that the report says were read."""
        return sum(node.nbytes for attempt in self.result.attempts for node in attempt.nodes)

    @property
    def local(self) -> float:
        """Share of them that the report says lay on the reader's own host."""
        local = sum(node.local_nbytes or 0 for attempt in self.result.attempts for node in attempt.nodes)
        return local / self.nbytes

    @property
    def inputs(self) -> list[NodeInput]:
        return [node.input for node in self.result.attempts[0].nodes]

    def fed(self, way: str) -> int:
        """Returns the rows that came one way."""
        return sum(given.rows.get(way, 0) for given in self.inputs)


@pytest.fixture(scope="module")
def clicks(shared_cluster: MiniHadoop) -> str:
    with shared_cluster.inside():
        put_clicks(shared_cluster, "/lake/clicks")
    return "/lake/clicks"


def job(lake: str, *, data: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """Returns a job whose model keeps a checksum of its rows."""
    inputs = {"x": [f"x{i}" for i in range(8)], "row": "row"}
    train = {"epochs": EPOCHS}
    return click_job(
        lake, "/runs", model="click_model:checked", data={"inputs": inputs, **data}, train=train, **sections
    )


@pytest.fixture(scope="module")
def beside(shared_cluster: MiniHadoop, clicks: str, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """A run as it is by default, but for whole blocks, so that its plan can be replayed bit for bit."""
    with shared_cluster.inside():
        return Measured(
            shared_cluster, tmp_path_factory.mktemp("beside"), job(clicks, data={"rebalance": False}), "beside"
        )


@pytest.mark.timeout(600)
def test_nine_of_ten_bytes_are_read_on_their_own_host(hadoop: MiniHadoop, beside: Measured) -> None:
    beside.run.assert_is_done("cluster", "beside", EPOCHS)
    assert beside.result.rows_trained == EPOCHS * ROWS
    assert f"{ROWS:,} rows in {FILES * GROUPS_PER_FILE} row groups" in beside.output
    assert beside.nbytes > 60e6 * EPOCHS
    assert beside.local >= 0.9, beside.output
    assert beside.sent <= 0.1 * beside.nbytes + OTHER_NBYTES
    assert "on the reader's own host" in beside.output


@pytest.mark.timeout(600)
def test_what_sparktf_plan_says_is_what_the_run_has_done(
    hadoop: MiniHadoop, clicks: str, beside: Measured, tmp_path: Path
) -> None:
    said = plan_clicks(hadoop, tmp_path, job(clicks, data={"rebalance": False}), "again")
    assert (said.exit_code, said.problems, said.run.state) == (0, (), "new")
    (train,) = said.data.streams
    (rows,) = {epoch.planned for epoch in beside.result.rows}
    assert (train.rows, said.run.rows_left) == (rows, beside.result.rows_trained)
    assert f"{train.row_groups} row groups, {train.shuffle_blocks} shuffle block" in beside.output
    assert said.updates is not None
    assert said.updates.total == pytest.approx(beside.result.steps, abs=2 * EPOCHS)
    assert said.locality is not None
    assert said.locality.share == pytest.approx(beside.local, abs=0.05)
    elsewhere = {host.host for host in said.locality.asked}.difference(beside.result.attempts[0].hosts)
    assert len(elsewhere) <= 1, "the executor that Spark starts with is where YARN likes, and stays if data is there"
    room = said.room
    assert room is not None
    assert (room.hosts, room.nodes, room.fits) == (len(hadoop.config.workers), 3, 3)
    assert said.former.runs == ("beside",)
    assert said.former.rows_s == pytest.approx(beside.result.rows_trained / beside.result.seconds["train"])
    assert said.former.checkpoint_nbytes
    assert said.times.train_s == pytest.approx(beside.result.seconds["train"])
    assert "again" not in hadoop.hdfs.names("/runs/clicks"), "nothing is written"


@pytest.mark.more(
    "cluster/test_yarn_locality.py::test_nine_of_ten_bytes_are_read_on_their_own_host",
    "integration/test_spark_dataframes.py::test_a_dataframe_handed_to_train_is_trained_on_with_the_rows_that_spark_collects",
)
@pytest.mark.timeout(600)
def test_without_placement_and_locality_the_report_says_what_chance_gives(
    hadoop: MiniHadoop, clicks: str, beside: Measured, tmp_path: Path
) -> None:
    scan = {"path": None, "sql": f"select * from parquet.`{clicks}`", "locality": False}
    chance = Measured(hadoop, tmp_path, job(clicks, data=scan, cluster={"placement": "any"}), "chance")
    remote = (1 - chance.local) * chance.nbytes
    assert 0.25 < chance.local < 0.75
    assert remote * 0.9 < chance.sent < remote * 1.2 + OTHER_NBYTES
    # A table that is files is read as these are.
    assert f"data: read directly by the trainers, a plain scan of {FILES} Parquet files" in chance.output
    assert chance.fed("direct") == EPOCHS * ROWS
    assert (chance.rows, chance.checksum) == (beside.rows, beside.checksum)


@pytest.mark.timeout(600)
def test_the_stored_plan_gives_the_same_weights_on_one_machine(
    hadoop: MiniHadoop, clicks: str, beside: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop.conf_dir()))
    sandbox = Sandbox(tmp_path / "app")
    plan = sandbox.runs / "clicks/replay/plan"
    plan.mkdir(parents=True)
    for name in hadoop.hdfs.names(f"{beside.path}/plan"):
        (plan / name).write_bytes(hadoop.hdfs.get(f"{beside.path}/plan/{name}"))
    output = {"path": f"file:{sandbox.runs}"}
    config = job(clicks, data={"rebalance": False}, output=output, params={"sums": str(tmp_path)})
    application = Application(sandbox, "local[3]")
    try:
        application.add_py_file(MODELS)
        application.begin(config, "replay")
        replayed = application.outcome(within_s=300).done
    finally:
        assert not application.close()
    assert replayed.rows_trained == EPOCHS * ROWS
    expected = weights(hadoop.hdfs.get(f"{beside.path}/model/model.keras"))
    found = weights(Path(replayed.model.removeprefix("file:"), "model.keras").read_bytes())
    assert len(expected) == 8 * 16 + 16 + 16 + 1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.timeout(600)
def test_spark_feeds_beside_the_blocks_the_rows_that_trainers_read_themselves(
    hadoop: MiniHadoop, clicks: str, beside: Measured, tmp_path: Path
) -> None:
    # One partition for each file, so that every partition has a host of its own.
    # On a machine that all hosts share, a host may take long to compute what lies on it.
    conf = {"spark.sql.files.maxPartitionBytes": "2m", "spark.locality.wait": "60s"}
    fed = job(
        clicks,
        data={"mode": "spark", "cache": "off", "rebalance": False},
        submit={"executor_cores": 2, "conf": {**SMALL_CONF, **conf}},
    )
    spark = Measured(hadoop, tmp_path, fed, "spark")
    assert "data: read through Spark, data.mode: spark asks for it" in spark.output
    assert [(e.planned, e.fed, e.trained) for e in spark.result.rows] == [(ROWS, ROWS, ROWS)] * EPOCHS
    assert spark.rows == EPOCHS * ROWS
    nbytes = sum(given.nbytes for given in spark.inputs)
    assert nbytes > 70e6 * EPOCHS
    assert sum(given.local_nbytes for given in spark.inputs) >= 0.9 * nbytes
    assert spark.fed("unix") >= 0.9 * EPOCHS * ROWS
    assert spark.sent <= 0.1 * nbytes + OTHER_NBYTES, f"{FILES} files; {spark.output}"
    assert beside.fed("direct") == EPOCHS * ROWS
    assert (spark.rows, spark.checksum) == (beside.rows, beside.checksum)


def weights(archive: bytes) -> npt.NDArray[np.float64]:
    """Returns all weights of a `.keras` file."""
    found: list[npt.NDArray[np.float64]] = []
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        content = files.read("model.weights.h5")
    with h5py.File(io.BytesIO(content)) as file:
        file["layers"].visititems(lambda _, item: found.append(item[()].ravel()) if hasattr(item, "shape") else None)
    return np.concatenate(found)
