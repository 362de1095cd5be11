"""What a submission to Kubernetes has to name, and what follows from it for Spark."""

from __future__ import annotations

import pytest

from sparktf.config.load import parse_config
from sparktf.driver.spark.masters import master_of
from sparktf.errors import ConfigError, PreflightError
from sparktf.submit.pods import check_output_is_shared

CONFIG = """\
name: churn
model: models.churn:build
data: {path: /lake/customers, inputs: {age: age}, targets: {churned: churned}}
cluster: {workers: 4}
output: {path: /runs}
submit: {master: "k8s://https://api:6443", kubernetes: {image: churn, upload: "file:///runs/uploads"}}
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("submit.kubernetes.image=null", r"needs kubernetes\.image: an image with Spark, Python and sparktf"),
        ("submit.kubernetes.upload=null", r"needs kubernetes\.upload: a folder in a store, .* or deploy_mode: client"),
        ("submit.kubernetes.volumes={runs: {path: /runs}}", "give one of claim, host_path and nfs"),
        ("submit.kubernetes.volumes={runs: {path: runs, claim: runs}}", r"submit\.kubernetes\.volumes\.runs\.path"),
        ("submit.kubernetes.namespace=My_Space", r"submit\.kubernetes\.namespace"),
    ],
)
def test_what_pods_lack_is_refused_by_its_key(change: str, said: str) -> None:
    parse_config(CONFIG)
    with pytest.raises(ConfigError, match=said):
        parse_config(CONFIG, [change])


@pytest.mark.parametrize(
    "given",
    [
        ("submit.kubernetes.image=null", "submit.conf.spark.kubernetes.container.image=churn"),
        ("submit.kubernetes.upload=null", "submit.conf.spark.kubernetes.file.upload.path=s3a://b/uploads"),
        ("submit.kubernetes.upload=null", "submit.deploy_mode=client"),
        ("submit.kubernetes={}", "submit.master=yarn"),
    ],
)
def test_what_is_named_elsewhere_or_not_needed_is_not_asked_for(given: tuple[str, ...]) -> None:
    parse_config(CONFIG, given)


@pytest.mark.parametrize(
    "change",
    [
        "submit.kubernetes.volumes={v: {claim: runs, path: /runs}}",
        "submit.conf.spark.kubernetes.executor.podTemplateFile=pod.yaml",
        "submit.conf.spark.kubernetes.executor.volumes.nfs.runs.mount.path=/runs",
        "output.path=hdfs://lake/runs",
    ],
)
def test_an_output_that_each_pod_would_have_for_itself_is_refused(change: str) -> None:
    with pytest.raises(PreflightError, match=r"^output\.path: /runs would be a folder of each pod's own, .* a volume"):
        check_output_is_shared(parse_config(CONFIG))
    check_output_is_shared(parse_config(CONFIG, [change]))


def test_a_run_that_waits_for_its_data_begins_with_one_pod() -> None:
    waits = parse_config(CONFIG, ["data.ready={success: true}"])
    assert [master_of("k8s://a").executors(config) for config in (parse_config(CONFIG), waits)] == [4, 1]
