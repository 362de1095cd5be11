"""`spark-submit jobs/train.py` on YARN, as somebody types it who does without `sparktf submit`, in both modes.

`make matrix` runs it on other Sparks, whose clients of Hadoop are older than the cluster.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest
from cluster.submission import MODES, SMALL_CONF, Submission, digits_config, plain_line, put_digits

from minihadoop import MiniHadoop

CONF = {
    **SMALL_CONF,
    "spark.pyspark.python": sys.executable,
    "spark.pyspark.driver.python": sys.executable,
    "spark.executor.instances": "2",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "1664m",
    "spark.driver.memory": "512m",
    "spark.driver.memoryOverhead": "512m",
    "spark.yarn.maxAppAttempts": "1",
}


@pytest.mark.more("cluster/test_yarn_eight_nights.py::test_two_nights_and_the_morning_after")
@pytest.mark.timeout(600)
def test_a_job_that_spark_submit_starts_trains_on_this_spark(hadoop: MiniHadoop, tmp_path: Path) -> None:
    lake = put_digits(hadoop, tmp_path / "lake")
    with ExitStack() as stack:
        begun = {}
        for mode in MODES:
            folder = tmp_path / f"{tmp_path.name}-{mode}"
            folder.mkdir()
            program = (*plain_line("jobs/train.py", {**CONF, "spark.submit.deployMode": mode}), "--config")
            # Wherever the workers are, they are to train the same.
            job = digits_config(folder, lake, data={"locality": False}, cluster={"threads": 1})
            begun[mode] = stack.enter_context(Submission(hadoop, folder, job, "--run-id", "r", program=program))
        codes = {mode: submission.wait() for mode, submission in begun.items()}
        assert codes == dict.fromkeys(MODES, 0), "\n".join(submission.output() for submission in begun.values())
        results = {mode: submission.result("r") for mode, submission in begun.items()}
    workers = {host.fqdn for host in hadoop.config.workers}
    for result in results.values():
        assert (result.verdict, len(result.attempts)) == (0, 1)
        assert [(rows.trained, rows.complete) for rows in result.rows] == [(result.rows[0].planned, True)] * 2
        assert set(result.attempts[0].hosts) <= workers
        application = hadoop.yarn.ended_application(result.application)
        assert application.final_status == "SUCCEEDED"
    said = [begun["client"].output(), hadoop.aggregated_logs(results["cluster"].application)]
    assert results["client"].metrics == results["cluster"].metrics
    assert all(f"Running Spark version {pyspark.__version__}" in text for text in said)
