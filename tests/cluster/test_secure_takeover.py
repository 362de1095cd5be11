"""A run under Kerberos whose driver is killed, submitted again twice at once, and what its network shows of it."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from cluster.capture import Capture
from cluster.containers import containers_of
from cluster.submission import REPO, SMALL_CONF, Submission, ticket_of
from integration.rows import job
from integration.watch import Watch
from lakes import write_file

from minihadoop import MiniHadoop
from minihadoop.waiting import wait_for
from sparktf.results.result import RunResult
from sparktf.storage.tokens import parse_tokens

pytestmark = pytest.mark.timeout(400)

MARK = b"ROWSEN"
FIRST = int.from_bytes(b"\0\0" + MARK, "little")
"""So each row's id has the mark in its upper bytes, in Parquet as in memory."""

IN_CLOSURES = (b"PRIVATE KEY", b"sparktf.executor")
"""What stands in Spark's closures beside the run's secret: its key, and the names of their modules."""

FILE_ROWS = 150
ROWS = 4 * FILE_ROWS
EPOCHS = 3
RUNS = "/user/alice/runs"


def put_rows(secured: MiniHadoop, folder: Path) -> None:
    """Puts marked rows into HDFS: y is 2 a - b + 1."""
    draw = np.random.default_rng(7)
    for i in range(ROWS // FILE_ROWS):
        a, b = draw.normal(size=(2, FILE_ROWS)).astype(np.float32)
        ids = np.arange(FIRST + i * FILE_ROWS, FIRST + (i + 1) * FILE_ROWS, dtype=np.int64)
        file = write_file(folder / f"part-{i}.parquet", pa.table({"id": ids, "a": a, "b": b, "y": 2 * a - b + 1}))
        assert MARK in file.read_bytes()
        secured.hdfs.put(f"/lake/marked/{file.name}", file.read_bytes())


def marked_run(secured: MiniHadoop, watch: Watch) -> dict[str, Any]:
    """Returns a run that Spark feeds; each epoch is one update of all rows."""
    return job(
        Path("/lake/marked"),
        Path(RUNS),
        "cases.watched:build",
        name="marked",
        params=watch.params(hold_at=2),
        data={"mode": "spark"},
        cluster={"workers": 2, "min_workers": 2, "trainer_memory_mib": 1024, "placement": "any"},
        train={"batch_size": 2 * ROWS, "epochs": EPOCHS},
        timeouts={"owner": 10},
        submit={
            "driver_memory_mib": 512,
            "executor_memory_mib": 512,
            "executor_cores": 2,
            "deploy_mode": "client",
            "conf": SMALL_CONF,
            "principal": "alice@MINIHADOOP.TEST",
            "keytab": str(secured.folder.keytab("alice")),
        },
    )


def passwords_of(application: str) -> set[bytes]:
    """Returns the passwords of the tokens that the processes of an application have."""
    files = {(process.environ().get("HADOOP_TOKEN_FILE_LOCATION", "")) for process in living(application)}
    found = [Path(file).read_bytes() for file in files if file and Path(file).is_file()]
    return {token.password for content in found for token in parse_tokens(content)}


def living(application: str) -> list[psutil.Process]:
    return [process for process in containers_of(application) if process.is_running()]


def checkpointed(secured: MiniHadoop) -> str:
    """Returns what is missing until the first epoch is stored; "" for nothing."""
    names = secured.hdfs.names(f"{RUNS}/marked/r", user="alice")
    stored = secured.hdfs.names(f"{RUNS}/marked/r/checkpoints", user="alice") if "checkpoints" in names else []
    return "" if any(name.startswith("step-") for name in stored) else f"there are {stored}"


@pytest.mark.more(
    "cluster/test_yarn_eight_nights.py::test_two_nights_and_the_morning_after",
    "unit/test_ownership.py::test_of_two_that_begin_at_once_one_owns_the_run_in_whatever_order_their_calls_come",
)
def test_a_killed_driver_is_followed_by_one_of_two_and_the_network_shows_nothing(
    secured_by_https: MiniHadoop, tmp_path: Path
) -> None:
    secured = secured_by_https
    shutil.copytree(REPO / "tests/integration/cases", tmp_path / "cases")
    watch = Watch(tmp_path / "books")
    watch.hold()
    secured.login("alice")
    alice = ticket_of(secured, "alice")
    with ExitStack() as stack:
        stack.enter_context(secured.inside())
        put_rows(secured, tmp_path / "rows")
        capture = stack.enter_context(Capture(tmp_path / "frames"))
        config = marked_run(secured, watch)

        def submit(name: str) -> Submission:
            (tmp_path / name).mkdir()
            shutil.copytree(tmp_path / "cases", tmp_path / name / "cases")
            return stack.enter_context(Submission(secured, tmp_path / name, config, "--run-id", "r", environment=alice))

        first = submit("first")
        held = watch.held(2)
        wait_for("the first checkpoint", lambda: checkpointed(secured), 60, first.output)
        before, passwords = [one.pid for one in held], passwords_of(first.application().id)
        assert passwords
        first.kill()
        both = [submit("one"), submit("other")]
        wait_for(
            "one has ended",
            lambda: "" if not all(s.is_running for s in both) else "neither has",
            240,
            lambda: both[0].output() + both[1].output(),
        )
        loser, owner = sorted(both, key=lambda one: one.is_running)
        assert loser.wait() == 7, loser.output() + owner.output()
        assert "run marked/r is owned by application" in loser.output()
        watch.release()
        assert owner.wait(150) == 0, owner.output()
        # Before this test itself reads by plain HTTP, whose addresses have tokens.
        needles = (MARK, *passwords, b"delegation=", *IN_CLOSURES)
        shown = [needle for needle in needles if capture.holds(needle)]
        result = RunResult.model_validate_json(secured.hdfs.get(f"{RUNS}/marked/r/result.json", user="alice"))
    assert (result.steps, result.rows_trained) == (EPOCHS, EPOCHS * ROWS)
    after = [pid for pid in watch.pids() if pid not in before]
    found = watch.ids(before, updates=1) + watch.ids(after)
    assert found == Counter(dict.fromkeys(range(FIRST, FIRST + ROWS), EPOCHS))
    assert (capture.lost, capture.nbytes > 1 << 20) == (0, True)
    assert not shown
