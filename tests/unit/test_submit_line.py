"""The `spark-submit` line of a configuration, held as files: what stands there is what a person sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparktf.config_load import parse_config
from sparktf.submit.environment import Programs
from sparktf.submit.line import Shipment, show_line, submit_line

GOLDEN = Path(__file__).parent / "golden"
PROGRAMS = Programs(Path("/opt/spark"), driver_python="/opt/venv/bin/python", python="/usr/bin/python3")
SHIPMENT = Shipment("/stage/sparktf_job.py", "/stage/sparktf-job.yaml", ("/stage/models-0123.zip",))
CONFIG = """\
name: churn
model: models.churn:build
data: {path: /lake/customers, inputs: {age: age}, targets: {churned: churned}}
cluster: {workers: 4}
output: {path: /models/runs}
"""

CASES: dict[str, tuple[str, ...]] = {
    "cluster": (),
    "client": ("submit.deploy_mode=client",),
    "archive": ("submit.archive=hdfs:///envs/env.tar.gz", "submit.queue=nightly", "cluster.trainer_memory_mib=6144"),
    "conf": (
        "submit.conf.spark.executor.memory=3g",
        "submit.conf.spark.yarn.tags=nightly",
        "submit.conf.spark.yarn.archive=hdfs:///spark/jars.zip",
        "submit.conf.spark.driver.extraJavaOptions=-Xss4m -Dgreeting='two words'",
        "submit.files=[/etc/krb5.conf]",
        "submit.py_files=[features.py]",
    ),
    "local": ("submit.master=local[4]", "submit.deploy_mode=client"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_line_is_the_one_on_file(case: str) -> None:
    config = parse_config(CONFIG, CASES[case])
    line = submit_line(config, SHIPMENT, "2026-11-20", PROGRAMS)
    assert show_line(line) + "\n" == (GOLDEN / f"submit_{case}.txt").read_text(encoding="utf-8")


def test_a_run_without_a_name_is_named_by_yarn() -> None:
    assert "--run-id" not in submit_line(parse_config(CONFIG), SHIPMENT, None, PROGRAMS)


def test_a_setting_of_the_users_own_wins_and_stands_once() -> None:
    config = parse_config(CONFIG, ["submit.conf.spark.executor.instances=7"])
    line = submit_line(config, SHIPMENT, None, PROGRAMS)
    assert [part for part in line if part.startswith("spark.executor.instances=")] == ["spark.executor.instances=7"]
