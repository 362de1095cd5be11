"""Kerberos and a pair of NameNodes: what one has given, the other one takes, and so runs outlive a failover."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from cluster.submission import REPO, SMALL_CONF, SPARKTF, Submission
from integration.rows import job, write_rows
from integration.watch import Watch
from integration.weights import descended, weights_of

from minihadoop import MiniHadoop
from minihadoop.config import SERVICE
from minihadoop.kerberos import ticket
from minihadoop.waiting import wait_for
from minihadoop.web import query, request
from sparktf.driver.spark.ticket import command_file_systems
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.credentials import TOKEN_FILE
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.hdfs.hdfs_native import NativeClient
from sparktf.storage.transactions.checkpoints import CheckpointStore

pytestmark = pytest.mark.timeout(500)

HOME = "/user/alice"
FILE_ROWS = (300, 90, 210) * 2
ROWS = sum(FILE_ROWS)
EPOCHS = 6


@pytest.fixture
def alice(secured: MiniHadoop, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileSystems]:
    """What a command of alice's reads and writes with, by her ticket; with the test inside the cluster's network."""
    secured.login("alice")
    for key, value in secured.environment(user="alice").items():
        monkeypatch.setenv(key, str(value))
    monkeypatch.setenv(TOKEN_FILE, "")  # hdfs-native's way to a token; the next test is not to find this one's
    with secured.inside():
        yield command_file_systems()


def tokens_given(secured: MiniHadoop) -> int:
    """Returns how many tokens the active NameNode has given so far."""
    name = "Hadoop:service=NameNode,name=RpcDetailedActivityForPort8020"
    return int(secured.jmx(name, "namenode", secured.hdfs.active()).get("GetDelegationTokenNumOps", 0))


def assert_is_taken(secured: MiniHadoop, files: FileSystems, name: str) -> None:
    """Asserts that files are written and read by every spelling of the pair, by both libraries."""
    active = secured.config.host(secured.hdfs.active() or "").fqdn
    for cluster in (f"hdfs://{SERVICE}", f"hdfs://{active}:8020", f"webhdfs://{SERVICE}", f"webhdfs://{active}:9870"):
        storage, path = files.open(cluster), f"{cluster}{HOME}/{name}"
        storage.write_bytes(path, cluster.encode())
        assert storage.read_bytes(path) == cluster.encode()
        if cluster.startswith("hdfs:"):
            native = NativeClient(cluster, dict(files.hadoop.for_nodes().properties), files.credentials, 20.0)
            found = native.open(f"{HOME}/{name}")
            assert found is not None, f"hdfs-native was refused at {cluster}"
            assert found.read_into(0, memoryview(bytearray(found.nbytes))) == len(cluster)


def test_a_token_is_taken_by_both_namenodes_by_whatever_name_and_renewed_by_either(
    secured: MiniHadoop, alice: FileSystems
) -> None:
    token, edition = alice.credentials.token(SERVICE), alice.credentials.edition()
    assert token is not None
    assert_is_taken(secured, alice, "before")
    secured.fail_over()
    renewal = query(op="RENEWDELEGATIONTOKEN", token=token)
    request("PUT", f"{secured.hdfs.url}/webhdfs/v1/?{renewal}", ticket=ticket(secured.folder, "alice"))
    assert_is_taken(secured, alice, "after")
    assert alice.credentials.edition() == edition, "it was not asked for again"


@pytest.mark.more(
    "cluster/test_secure_pair.py::test_a_token_is_taken_by_both_namenodes_by_whatever_name_and_renewed_by_either",
    "cluster/test_secure_training.py::test_a_run_outlives_its_tokens_and_a_lost_executor_and_is_alices_alone",
)
def test_a_run_by_keytab_goes_on_at_the_other_namenode_as_if_nothing_had_been(
    secured: MiniHadoop, alice: FileSystems, tmp_path: Path
) -> None:
    rows = write_rows(tmp_path / "rows", FILE_ROWS)
    for file in rows.iterdir():
        secured.hdfs.put(f"{HOME}/rows/{file.name}", file.read_bytes(), user="alice")
    shutil.copytree(REPO / "tests/integration/cases", tmp_path / "cases")
    watch = Watch(tmp_path / "books")
    watch.hold()
    config = job(
        Path(f"{HOME}/rows"),
        Path(f"{HOME}/pair"),
        "cases.watched:build",
        params=watch.params(hold_at=2),
        data={"mode": "direct", "cache": "off"},
        cluster={"workers": 2, "min_workers": 2, "trainer_memory_mib": 1024, "placement": "any"},
        train={"batch_size": 2 * ROWS, "epochs": EPOCHS},  # no node has more rows than its half of a batch
        publish={},
        submit={
            "driver_memory_mib": 512,
            "executor_memory_mib": 512,
            "deploy_mode": "client",
            "principal": "alice@MINIHADOOP.TEST",
            "keytab": str(secured.folder.keytab("alice")),
            "conf": SMALL_CONF,
        },
    )
    with Submission(secured, tmp_path, config, "--run-id", "r", environment=secured.environment(user="alice")) as run:
        watch.held(2)
        before = tokens_given(secured)
        # Tokens that live 60 s are not to be due in the very seconds in which no NameNode is active.
        wait_for("Spark gets tokens", lambda: "" if tokens_given(secured) > before else "it does not", 120, run.output)
        active = secured.fail_over()
        watch.release()
        assert run.wait(150) == 0, run.output()
    assert secured.hdfs.active() == active
    assert watch.ids(watch.pids()) == Counter(dict.fromkeys(range(1, ROWS + 1), EPOCHS))
    storage, folder = alice.open(HOME), f"hdfs://{SERVICE}{HOME}/pair/t"
    result = RunResult.model_validate_json(storage.read_bytes(f"{folder}/r/result.json"))
    assert (len(result.attempts), result.rows_trained) == (1, EPOCHS * ROWS)
    (tmp_path / "model.keras").write_bytes(storage.read_bytes(f"{folder}/serving/1/model.keras"))
    table = pq.read_table(rows)
    x, y = np.column_stack([table["a"], table["b"]]), table["y"].to_numpy()
    np.testing.assert_allclose(weights_of(tmp_path), descended(x, y, updates=EPOCHS), rtol=1e-5)
    torn: list[tuple[str, str]] = []
    store = CheckpointStore(storage, RunDirectory(f"{HOME}/pair", "t", "r"), 3, on_torn=lambda *said: torn.append(said))
    found = store.latest()
    assert found is not None  # it has read its files, and compared checksums
    assert (torn, found[0].step) == ([], EPOCHS)
    for command, says in (("plan", f"{ROWS:,} rows"), ("show", "done")):
        named = ["--output", f"{HOME}/pair", "t/r"] if command == "show" else [tmp_path / "job.yaml"]
        python = {"PYTHONPATH": f"{REPO}:{tmp_path}"}
        done = secured.run([*SPARKTF, command, *map(str, named)], user="alice", env=python)
        assert says in done.stdout, done.stdout
