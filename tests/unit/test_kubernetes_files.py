"""The image and the manifests of docs/cluster/kubernetes agree with the program, and with each other."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml
from source_trees import ROOT

from sparktf.config.load import parse_config
from sparktf.driver.spark.allowed_losses import LOSSES
from sparktf.driver.spark.yarn_settings import containers

FOLDER = ROOT / "docs/cluster/kubernetes"
MANIFESTS = ("rights", "network", "operator")
CONFIG = """\
name: churn
model: churn:build
data: {path: /lake, inputs: {age: age}, targets: {churned: churned}}
cluster: {workers: 4}
output: {path: /runs}
"""


def manifests(name: str) -> list[dict[str, Any]]:
    """Returns the resources of a file."""
    return list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")))


def dockerfile() -> str:
    """Returns the image's file, each instruction on a line."""
    return (FOLDER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")


def test_what_the_image_is_made_of_is_there() -> None:
    for line in re.findall(r"^COPY (.*)$", dockerfile(), re.MULTILINE):
        *sources, _ = line.split()
        assert [source for source in sources if not (ROOT / source).exists()] == []
    said = dockerfile()
    assert {"setup.py", "sparktf", "yarn/schedules"} <= set(re.findall(r"[\w./]+", said)), "as setup.py packs them"
    assert re.search(r'^ENTRYPOINT .*"/opt/sparktf/entrypoint\.sh"\]$', said, re.MULTILINE)


def test_the_image_runs_any_command_and_hands_its_code_on() -> None:
    done = subprocess.run([FOLDER / "entrypoint.sh", "sh", "-c", "echo here; exit 3"], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (3, b"here\n")


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_a_list_of_named_resources(name: str) -> None:
    found = manifests(name)
    assert all({"apiVersion", "kind", "metadata"} <= resource.keys() for resource in found)


def test_a_driver_may_do_what_spark_does_with_its_account() -> None:
    account, role, binding = manifests("rights")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account["metadata"]["name"]}]
    assert manifests("operator")[0]["spec"]["driver"]["serviceAccount"] == account["metadata"]["name"]


def test_the_operators_night_asks_for_what_a_submission_would() -> None:
    (night,) = manifests("operator")
    spec = night["spec"]
    executor, driver = containers(parse_config(CONFIG))
    assert spec["executor"]["instances"] == 4
    assert spec["executor"]["memoryOverhead"] == f"{executor.overhead_mib}m"
    assert spec["driver"]["memoryOverhead"] == f"{driver.overhead_mib}m"
    assert spec["sparkConf"]["spark.task.maxFailures"] == str(LOSSES)
    home = re.search(r"SPARK_HOME=(\S+)/pyspark", dockerfile())
    assert home is not None
    script = spec["mainApplicationFile"].removeprefix(f"local://{home[1]}/")
    assert (ROOT / script).is_file(), script
