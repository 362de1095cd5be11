"""GPUs that Spark deals out, of made-up addresses: whose trainer sees which, and what is refused."""

from __future__ import annotations

from pathlib import Path

from integration.application import Application
from integration.rows import job
from integration.sandbox import Sandbox
from integration.watch import Watch

from sparktf.errors import Verdict

DISCOVERY = """\
#!/bin/sh
echo '{"name": "gpu", "addresses": ["6", "7"]}'
"""


def gpus_seen(pid: int) -> str:
    """Returns the addresses that a process was started with."""
    environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    (seen,) = [entry.partition(b"=")[2] for entry in environ if entry.startswith(b"CUDA_VISIBLE_DEVICES=")]
    return seen.decode()


def test_each_trainer_sees_the_gpus_of_its_task_and_no_two_see_the_same(
    sandbox: Sandbox, rows: Path, watch: Watch
) -> None:
    script = sandbox.folder / "gpus.sh"
    script.write_text(DISCOVERY, encoding="utf-8")
    script.chmod(0o755)
    conf = {
        "spark.worker.resource.gpu.amount": "2",
        "spark.worker.resource.gpu.discoveryScript": str(script),
        "spark.executor.resource.gpu.amount": "2",
        "spark.task.resource.gpu.amount": "1",
    }
    with_two = {"workers": 2, "collectives": "auto"}
    application = Application(sandbox, "local-cluster[1,2,1024]", conf)
    config = job(rows, sandbox.runs, "cases.watched:build", params=watch.params(hold_at=2), cluster=with_two)
    watch.hold()
    application.begin(config, "r")
    seen = sorted(gpus_seen(held.pid) for held in watch.held(2))
    watch.release()
    assert seen == ["6", "7"]
    done = application.outcome().done
    assert done.verdict is Verdict.DONE

    devices = {"strategy": "mirrored", "workers": 1, "devices": 2}
    application.begin(job(rows, sandbox.runs, "cases.watched:build", params=watch.params(), cluster=devices), "s")
    refused = application.outcome()
    assert refused.verdict == Verdict.REFUSED
    assert refused.message.startswith("cluster.devices: 2, but a node has 1 GPUs: raise spark.executor.resource")
    assert application.close() == []
