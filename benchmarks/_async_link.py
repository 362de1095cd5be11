"""Bytes that cross the links of a cluster's hosts while an asynchronous run trains: _async_link.py OUT.

The hosts of the mini Hadoop have networks of their own, and the kernel counts what crosses each. The lake lies on two
of them, where the workers sit then. The driver, which all nodes report to, is on none of them; whatever else crosses
the coordinator's link counts as well, such as what Hadoop's daemons say.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pyspark
import yaml
from _lake import Schema, float_columns, tables

from minihadoop import ClusterConfig, MiniHadoop, down, up
from minihadoop.waiting import wait_for

HERE = Path(__file__).parent
HOSTS, DATA_HOSTS = 4, ("host1", "host2")
UPDATES, BATCH = 20_000, 32
LAKE, RUNS, RUN_ID = "/lake", "/runs", "r"
FROM, UNTIL = 0.1, 0.9
"""Of an epoch's rows: the start and what comes at the end are left out."""
TIMEOUT_S = 900
MAIN = "import sys; from sparktf.commands.cli import main; sys.exit(main())"


class Seen(NamedTuple):
    """What a line of progress came with.

    Attributes:
        rows: Trained by then.
        nbytes: What each host's link had carried, both ways.
    """

    rows: int
    nbytes: dict[str, int]


def put_lake(cluster: MiniHadoop, schema: Schema) -> None:
    """Writes the rows to HDFS, each file on one of the two hosts."""
    for number, table in enumerate(tables(schema)):
        sink = io.BytesIO()
        pq.write_table(table, sink, row_group_size=schema.group_rows)
        _put_on(cluster, DATA_HOSTS[number % 2], f"{LAKE}/part-{number}.parquet", sink.getvalue())


def _put_on(cluster: MiniHadoop, host: str, path: str, content: bytes) -> None:
    """Puts a file until HDFS has drawn that host for all of its blocks."""

    def elsewhere() -> str:
        cluster.hdfs.put(path, content, replication=1)
        hosts = {replica for block in cluster.hdfs.block_locations(path) for replica in block.hosts}
        return "" if hosts == {host} else f"it is on {hosts}"

    wait_for(f"{path} is on {host}", elsewhere, 120)


def submit(cluster: MiniHadoop, folder: Path, schema: Schema) -> Iterator[Seen]:
    """Trains one epoch, and yields what is seen with each line of progress.

    Raises:
        SystemExit: the run failed.
    """
    jars = f"local:{Path(pyspark.__file__).parent}/jars/*"
    config: dict[str, Any] = {
        "name": "bench",
        "model": "_async_models:build",
        "data": {"path": LAKE, "inputs": schema.inputs, "targets": {"y": "y"}},
        "cluster": {"strategy": "parameter_server", "workers": 2, "ps": 1, "trainer_memory_mib": 1024},
        "train": {"batch_size": BATCH},
        "checkpoint": {"every_steps": None, "every_seconds": None},
        "output": {"path": RUNS, "progress_seconds": 1},
        "submit": {
            "deploy_mode": "client",
            "driver_memory_mib": 512,
            "executor_memory_mib": 512,
            "conf": {"spark.yarn.jars": jars, "spark.ui.enabled": "false"},
        },
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(config))
    for module in ("_async_models.py", "_clock.py"):
        shutil.copy(HERE / module, folder)
    path = os.pathsep.join([str(HERE.parent), str(HERE.parent / "jobs")])
    environment = {k: v for k, v in os.environ.items() if k not in ("SPARK_HOME", "PYSPARK_PYTHON")}
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "submit", "job.yaml", "--run-id", RUN_ID],
        cwd=folder,
        env={**environment, **cluster.environment(), "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if found := re.search(r"epoch 1/1 .* rows ([\d,]+)/", line):
            yield Seen(int(found[1].replace(",", "")), {host: carried(cluster, host) for host in hosts()})
    if process.wait(TIMEOUT_S):
        raise SystemExit("".join(said[-60:]))


def hosts() -> list[str]:
    """Returns the hosts that compute."""
    return [f"host{i}" for i in range(1, HOSTS + 1)]


def carried(cluster: MiniHadoop, host: str) -> int:
    """Returns the bytes that have crossed a host's link, both ways, as its kernel counts."""
    lines = cluster.run(["cat", "/proc/net/dev"], host).stdout.splitlines()
    links = [line.partition(":") for line in lines if ":" in line]
    # After the name: eight columns of what came, the first of them bytes, and then of what went.
    counts = [list(map(int, rest.split())) for name, _, rest in links if name.strip() != "lo"]
    return sum(count[0] + count[8] for count in counts)


def measure(cluster: MiniHadoop, folder: Path) -> dict[str, float]:
    """Returns the bytes for each row over the link of each node's host, by node."""
    schema = float_columns(BATCH * UPDATES, 16_000, columns=8)
    put_lake(cluster, schema)
    seen = [look for look in submit(cluster, folder, schema) if FROM * schema.rows <= look.rows <= UNTIL * schema.rows]
    if len(seen) < 2 or seen[0].rows == seen[-1].rows:
        raise SystemExit("the run was too short to be seen")
    rows = seen[-1].rows - seen[0].rows
    result = json.loads(cluster.hdfs.get(f"{RUNS}/bench/{RUN_ID}/result.json"))
    at = {node["node"]: node["host"].partition(".")[0] for node in result["attempts"][-1]["nodes"]}
    return {node: (seen[-1].nbytes[host] - seen[0].nbytes[host]) / rows for node, host in at.items()}


def main(out: Path) -> None:
    """Brings a cluster up, measures, and takes it down."""
    config = ClusterConfig(f"bench-{os.getpid()}", hosts=HOSTS)
    try:
        cluster = up(config, lambda text: print(text, file=sys.stderr))
        with cluster.inside(), tempfile.TemporaryDirectory(prefix="sparktf-bench-") as folder:
            out.write_text(json.dumps(measure(cluster, Path(folder))))
    finally:
        down(config.name, lambda text: print(text, file=sys.stderr))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
