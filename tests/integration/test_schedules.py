"""The files of yarn/schedules as their schedulers take them: Oozie's by its schemas, cron's with runs on real Spark."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from integration.oozie_schemas import oozie_schema
from integration.processes import MARK
from integration.rows import LINE, job, write_rows
from integration.sandbox import REPO, Sandbox
from lxml import etree

from minihadoop.environment import java_home
from sparktf.results.result import RunResult

SCHEDULES = REPO / "yarn/schedules"
ROWS = 64


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> etree.XMLSchema:
    return oozie_schema(tmp_path_factory.mktemp("oozie"))


@pytest.mark.parametrize("name", ["workflow.xml", "coordinator.xml"])
def test_oozies_schemas_take_its_files(schema: etree.XMLSchema, name: str) -> None:
    schema.assertValid(etree.parse(SCHEDULES / "oozie" / name))


@pytest.mark.parametrize("part", ["{*}start", "{*}action/{*}shell/{*}exec", "{*}action/{*}email/{*}to"])
def test_oozies_schemas_miss_what_is_taken_out(schema: etree.XMLSchema, part: str) -> None:
    workflow = copy.deepcopy(etree.parse(SCHEDULES / "oozie/workflow.xml"))
    found = workflow.find(part)
    found.getparent().remove(found)
    assert not schema.validate(workflow)


# --- cron ---


def cron_lines(text: str) -> tuple[dict[str, str], str]:
    """Returns the settings and the one command of a crontab, as cron reads them."""
    settings: dict[str, str] = {}
    commands = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if found := re.fullmatch(r"(\w+)\s*=\s*(.*)", line):
            settings[found[1]] = found[2]
        elif not line.startswith("#"):
            commands.append(line.split(None, 5)[5])
    [command] = commands
    assert "%" not in command  # to cron, the end of the command
    return settings, command


class Installed:
    """`/opt/churn` as docs/nights/scheduling.md has it installed, but in a folder of the test's."""

    def __init__(self, folder: Path, sandbox: Sandbox, config: Mapping[str, Any]) -> None:
        self._folder = folder
        folder.mkdir()
        (folder / "home").mkdir()
        (folder / ".venv").symlink_to(sys.prefix)
        (folder / "nightly.sh").symlink_to(SCHEDULES / "nightly.sh")
        (folder / "line.py").write_text(LINE, encoding="utf-8")
        (folder / "churn.yaml").write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        settings = self._here("sparktf.env")
        settings = re.sub("(?m)^HADOOP_CONF_DIR=.*$", "", settings)  # there is no Hadoop
        settings = re.sub("(?m)^JAVA_HOME=.*$", f"JAVA_HOME={java_home()}", settings)
        settings = settings.replace("/var/log/churn", f"{folder}/logs")
        of_sandbox = (MARK, "SPARK_HOME", "SPARK_SUBMIT_OPTS", "TMPDIR", "PYTHONPATH")
        added = [f"{key}='{value}'" for key, value in sandbox.environment().items() if key in of_sandbox]
        (folder / "sparktf.env").write_text("\n".join([settings, *added, "SPARKTF_TRIES=1"]), encoding="utf-8")

    def run_the_line(self) -> subprocess.CompletedProcess[str]:
        """Does what cron does at the hour of the crontab's line."""
        settings, command = cron_lines(self._here("cron/crontab"))
        environment = {"HOME": f"{self._folder}/home", "LOGNAME": "churn", "PATH": "/usr/bin:/bin", **settings}
        return subprocess.run(
            ["/usr/bin/env", "-i", *(f"{key}={value}" for key, value in environment.items()), "/bin/sh", "-c", command],
            cwd=f"{self._folder}/home",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def _here(self, name: str) -> str:
        return (SCHEDULES / name).read_text(encoding="utf-8").replace("/opt/churn", str(self._folder))


@pytest.mark.more(
    "integration/test_first_night.py::test_the_first_night_is_as_its_page_says",
    "unit/test_schedules.py::test_what_does_not_come_right_is_told_after_the_last_try",
)
def test_crons_line_tells_of_data_that_has_not_come_and_is_silent_once_it_has(sandbox: Sandbox, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write_rows(lake / "date=2026-11-01", [ROWS])
    config = job(lake, sandbox.runs, "line:build", name="churn")
    config["data"] |= {"where": "date <= '{{date}}'", "ready": {"window": {"folder": "date=%Y-%m-%d"}}}
    config["data"]["ready"]["window"] |= {"first": "{{date}}", "last": "{{date}}"}
    config["cluster"] = {"strategy": "single", "workers": 1}
    conf = sandbox.settings("local[1]", {})
    config["submit"] = {"master": conf.pop("spark.master"), "deploy_mode": "client", "conf": conf}
    installed = Installed(tmp_path / "opt-churn", sandbox, config)

    early = installed.run_the_line()
    assert early.returncode == 6, early
    found = re.match(r"churn (\d{4}-\d\d-\d\d): exit code 6, the data has not come", early.stdout)
    assert found is not None, early
    date = found[1]
    assert f"date={date} is missing (1 of 1 partitions)" in early.stdout
    write_rows(lake / f"date={date}", [ROWS])

    done = installed.run_the_line()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    result = RunResult.model_validate_json((sandbox.runs / f"churn/{date}/result.json").read_bytes())
    assert [row.planned for row in result.rows] == [2 * ROWS]
