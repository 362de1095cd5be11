"""The DAGs of yarn/schedules, run by a real Airflow for several nights: `make airflow`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from dags.airflow_home import AirflowHome
from dags.servers import Mails, Yarn, serving
from integration.rows import LINE, job, write_rows
from integration.sandbox import Sandbox

from sparktf_airflow.resource_manager import run_tag

AIRFLOW = os.environ.get("AIRFLOW")
pytestmark = [
    pytest.mark.skipif(AIRFLOW is None, reason="make airflow brings one"),
    pytest.mark.timeout(1200),  # three real runs, each beside an Airflow that starts anew
]

ROWS = 64
DONE, KEPT, LATE, REFUSED = "2026-11-01", "2026-11-02", "2026-11-03", "2026-11-04"

# The real sparktf, but on the night whose gate keeps the old model, on the one whose data it refuses, and on YARN.
COMMAND = """\
#!/bin/sh
echo "$@" >> {folder}/submitted
case "$*" in
*--detach*) echo "submitted as application_1_0001 to YARN, queue default"; exit 0 ;;
*{kept}*) exit 5 ;;
*{refused}*) exit 3 ;;
esac
export {settings}
exec {python} -m sparktf.commands.cli "$@"
"""

# Waits until it is told to end. What it waits for says so: before that it would not heed being killed.
WAITING = """\
#!/bin/sh
trap 'kill $!; touch {folder}/stopped; exit 130' TERM
(echo up > {folder}/up; read -r word < {folder}/go) &
wait
"""


class Place(NamedTuple):
    """Airflow, what it talks to, and the folder in place of /opt/churn."""

    airflow: AirflowHome
    folder: Path
    lake: Path
    runs: Path
    mails: Mails
    yarn: Yarn

    def submitted(self, date: str) -> list[str]:
        """Returns the command lines of a date's submissions."""
        return [line for line in (self.folder / "submitted").read_text("utf-8").splitlines() if date in line]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder, lake = tmp_path_factory.mktemp("churn"), tmp_path_factory.mktemp("lake")
    sandbox = Sandbox(tmp_path_factory.mktemp("sandbox") / "app")
    write_rows(lake / f"date={DONE}", [ROWS])
    config: dict[str, Any] = job(lake, sandbox.runs, "line:build", name="churn")
    config["data"] |= {"where": "date <= '{{date}}'", "ready": {"window": {"folder": "date=%Y-%m-%d"}}}
    config["data"]["ready"]["window"] |= {"first": "{{date}}", "last": "{{date}}"}
    config["cluster"] = {"strategy": "single", "workers": 1}
    conf = sandbox.settings("local[1]", {})
    config["submit"] = {"master": conf.pop("spark.master"), "deploy_mode": "client", "conf": conf}
    (folder / "line.py").write_text(LINE, encoding="utf-8")
    (folder / "churn.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    settings = " ".join(f"{k}='{v}'" for k, v in sandbox.environment().items() if os.environ.get(k) != v)
    command = COMMAND.format(folder=folder, kept=KEPT, refused=REFUSED, settings=settings, python=sys.executable)
    (folder / "sparktf").write_text(command, encoding="utf-8")
    (folder / "sparktf").chmod(0o755)
    mails, yarn = Mails(), Yarn()
    replaced = {
        "/opt/churn/.venv/bin/sparktf": f"{folder}/sparktf",
        "/opt/churn": str(folder),
        '"retries": 5': '"retries": 1',
        "timedelta(minutes=10)": "timedelta(seconds=1)",
        'resource_managers=["http://resourcemanager:8088"]': f'resource_managers=["{yarn.url}"], poll_s=0.1',
    }
    try:
        with serving(mails.server), serving(yarn.server):
            home = tmp_path_factory.mktemp("airflow")
            airflow = AirflowHome(Path(str(AIRFLOW)), home, mails.server.server_address[1], replaced)
            yield Place(airflow, folder, lake, sandbox.runs, mails, yarn)
    finally:
        sandbox.family.kill()


def test_a_night_that_is_done_is_deployed(place: Place) -> None:
    night = place.airflow.night("churn", DONE)
    assert night.states == {"train": "success", "deploy": "success"}, night.said
    assert f"churn / {DONE}: done" in night.said
    assert (place.runs / f"churn/{DONE}/result.json").is_file()
    assert len(place.submitted(DONE)) == 1


def test_a_night_whose_gate_kept_the_old_model_is_skipped(place: Place) -> None:
    night = place.airflow.night("churn", KEPT)
    assert night.states == {"train": "skipped", "deploy": "skipped"}, night.said
    assert len(place.submitted(KEPT)) == 1


def test_a_night_whose_data_has_not_come_is_tried_again_told_and_done_when_it_has(place: Place) -> None:
    night = place.airflow.night("churn", LATE)
    assert night.states == {"train": "failed", "deploy": "upstream_failed"}, night.said
    assert len(place.submitted(LATE)) == night.tries["train"] == 2
    assert f"date={LATE} is missing" in night.said
    [(to, text)] = place.mails.sent
    assert to == "ml-team@example.org"
    assert "exit code 6, the data is not there yet" in text
    write_rows(place.lake / f"date={LATE}", [ROWS])
    night = place.airflow.night("churn", LATE)
    assert night.states == {"train": "success", "deploy": "success"}, night.said


def test_data_that_is_refused_is_told_to_those_who_make_it_and_never_tried_again(place: Place) -> None:
    before = len(place.mails.sent)
    night = place.airflow.night("churn", REFUSED)
    assert night.states == {"train": "failed", "deploy": "upstream_failed"}, night.said
    assert len(place.submitted(REFUSED)) == 1
    [(to, text)] = place.mails.sent[before:]
    assert to == "data-team@example.org"
    assert "exit code 3, the data was refused" in text


# --- on YARN, which is pretended ---


def of_run(place: Place, date: str) -> tuple[str, str, str]:
    """Returns tag, name and user of a run's application."""
    of = f"churn_on_yarn.train.{date}"
    return run_tag(of, f"{place.folder}/churn.yaml", ()), f"sparktf {of}", "churn"


def test_on_yarn_a_run_is_submitted_once_and_waited_for(place: Place) -> None:
    place.yarn.ends["application_1_0001"] = ("SUCCEEDED", "")
    night = place.airflow.night("churn_on_yarn", DONE)
    assert night.states == {"train": "success", "deploy": "success"}, night.said
    tag, name, _ = of_run(place, DONE)
    assert place.submitted(DONE)[-1] == (
        f"submit {place.folder}/churn.yaml --date {DONE} --detach --set submit.conf.spark.yarn.tags=sparktf,{tag} "
        f"--set submit.conf.spark.app.name={name}"
    )


def test_on_yarn_a_run_that_is_under_way_is_found_again_and_not_submitted(place: Place) -> None:
    before = place.submitted("2026-")
    tag, name, user = of_run(place, KEPT)
    place.yarn.given["application_1_0009"] = tag, name, "mallory"
    place.yarn.given["application_1_0002"] = tag, name, user
    place.yarn.ends["application_1_0002"] = ("FAILED", "User application exited with status 5")
    night = place.airflow.night("churn_on_yarn", KEPT)
    assert night.states == {"train": "skipped", "deploy": "skipped"}, night.said
    assert "is under way as application_1_0002" in night.said
    assert place.submitted("2026-") == before


def test_on_yarn_a_run_that_takes_too_long_is_killed(place: Place) -> None:
    place.yarn.given["application_1_0003"] = of_run(place, LATE)
    place.airflow.set_limit_s(0)
    night = place.airflow.night("churn_on_yarn", LATE)
    assert night.states == {"train": "failed", "deploy": "upstream_failed"}, night.said
    assert night.tries["train"] == 1
    assert place.yarn.killed == [("application_1_0003", "churn")]


CANCELLED = """
import asyncio
from airflow.sdk.module_loading import import_string
from sparktf_airflow.triggers import ApplicationTrigger

async def cancel():
    path, arguments = ApplicationTrigger(
        application="application_1_0004", resource_managers=[{url!r}], user="churn", give_up_at=4e9, poll_s=0.1
    ).serialize()
    trigger = import_string(path)(**arguments)
    waiting = asyncio.ensure_future(anext(trigger.run()))
    assert not (await asyncio.wait([waiting], timeout=1))[0]
    waiting.cancel()
    await trigger.on_kill()

asyncio.run(cancel())
"""


def test_on_yarn_a_task_that_somebody_cancels_ends_its_application(place: Place) -> None:
    place.airflow.python(CANCELLED.format(url=place.yarn.url))
    assert place.yarn.killed[-1] == ("application_1_0004", "churn")


STOPPED = """
import threading
from pathlib import Path
from sparktf_airflow.operators import SparktfOperator

task = SparktfOperator(task_id="train", config="churn.yaml", date="2026-11-01", sparktf="{folder}/sparktf")

def execute():
    try:
        task.execute({{}})
    except Exception as error:
        print(error)

thread = threading.Thread(target=execute)
thread.start()
Path("{folder}/up").read_text()
task.on_kill()
thread.join()
"""


def test_a_task_that_is_killed_stops_its_run_in_order(place: Place, tmp_path: Path) -> None:
    for name in ("up", "go"):
        os.mkfifo(tmp_path / name)
    command = tmp_path / "sparktf"
    command.write_text(WAITING.format(folder=tmp_path), encoding="utf-8")
    command.chmod(0o755)
    said = place.airflow.python(STOPPED.format(folder=tmp_path))
    assert (tmp_path / "stopped").is_file(), said
    assert "churn.yaml 2026-11-01: exit code 130, interrupted" in said
