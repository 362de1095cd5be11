"""What the files for Airflow do without it: whose applications they take for the run, and what a mail is made of."""

from __future__ import annotations

import importlib
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
import psutil
import pytest
from dags.servers import Yarn, serving
from integration.processes import wait_for

from sparktf_airflow.command import Command
from sparktf_airflow.resource_manager import ResourceManager, run_tag

PLACE = "churn_on_yarn.train.2026-11-20"
NAME = f"sparktf {PLACE}"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "churn.yaml"
    path.write_text("name: churn\noutput: {path: /runs}\n", encoding="utf-8")
    return path


def test_only_the_users_own_application_of_the_run_is_taken_for_it(config: Path) -> None:
    yarn = Yarn()
    tag = run_tag(PLACE, str(config), ())
    with serving(yarn.server):
        asked = ResourceManager([yarn.url], "churn")
        yarn.given = {"application_1": (tag, NAME, "mallory"), "application_2": (tag, "another job", "churn")}
        assert asked.under_way(tag, NAME) is None
        yarn.given["application_3"] = (tag, NAME, "churn")
        assert asked.under_way(tag, NAME) == "application_3"
        yarn.given["application_3"] = (f"{tag}0", NAME, "churn")
        assert asked.under_way(tag, NAME) is None


def test_another_configuration_output_or_date_has_another_tag(config: Path, tmp_path: Path) -> None:
    tags = {
        run_tag(PLACE, str(config), ()),
        run_tag(PLACE, str(config), ("--set", "output.path=/mine")),
        run_tag(PLACE.replace("20", "21"), str(config), ()),
        run_tag(PLACE, str(tmp_path / "none.yaml"), ()),
    }
    config.write_text("name: churn\noutput: {path: /mine}\n", encoding="utf-8")
    assert len(tags | {run_tag(PLACE, str(config), ())}) == 5


@pytest.mark.parametrize("place", [PLACE, "Dag." + "x" * 200 + ".2026-11-20"])
def test_a_tag_is_one_that_yarn_takes(place: str, config: Path) -> None:
    tag = run_tag(place, str(config), ())
    assert tag == tag.lower()
    assert len(tag) <= 100
    assert ".2026-11-20." in tag


class Notifier:
    """Renders what it is given as Airflow's does: as templates, with nothing escaped."""

    mails: list[dict[str, str]]

    def __init__(self, **fields: str) -> None:
        self._fields = fields

    def __call__(self, context: dict[str, Any]) -> None:
        templates = jinja2.Environment(autoescape=False)
        self.mails.append({key: templates.from_string(text).render(context) for key, text in self._fields.items()})


def test_what_an_exception_says_is_no_template_and_no_html(monkeypatch: pytest.MonkeyPatch) -> None:
    smtp, exceptions = ModuleType("smtp"), ModuleType("exceptions")
    smtp.SmtpNotifier = Notifier  # type: ignore[attr-defined]
    for name in ("AirflowException", "AirflowFailException", "AirflowSkipException"):
        setattr(exceptions, name, type(name, (Exception,), {}))
    monkeypatch.setitem(sys.modules, "airflow.providers.smtp.notifications.smtp", smtp)
    monkeypatch.setitem(sys.modules, "airflow.sdk.exceptions", exceptions)
    monkeypatch.delitem(sys.modules, "sparktf_airflow.verdicts", raising=False)
    verdicts = importlib.import_module("sparktf_airflow.verdicts")
    monkeypatch.delitem(sys.modules, "sparktf_airflow.verdicts")
    Notifier.mails = []
    said = "exit code 3 {{ var.value.password }} {% for x in y %} <script>alert('x')</script>"
    context = {
        "exception": ValueError(said),
        "ti": {"dag_id": "churn", "log_url": "http://a/?b='c'"},
        "ds": "2026-11-20",
    }
    verdicts.tell("owners@x", "data@x")(context)
    (mail,) = Notifier.mails
    assert mail["subject"] == "churn 2026-11-20 failed"
    assert "{{ var.value.password }} {% for x in y %} &lt;script&gt;alert(" in mail["html_content"]
    assert "<script>" not in mail["html_content"]
    assert "'c'" not in mail["html_content"]
    assert "sparktf_failure" not in context


def test_a_command_has_ended_where_one_that_it_has_started_goes_on_holding_its_output() -> None:
    command = Command(["sh", "-c", "sleep 1000 & echo one; echo $!; exit 3"])
    said, holds = command.lines()
    assert said == "one\n"
    assert command.code() == 3
    wait_for("it is ended, too", lambda: not is_alive(int(holds)), within_s=30)


def test_a_command_that_does_not_stop_in_time_is_ended_with_all_that_it_has_started() -> None:
    command = Command(["sh", "-c", "trap '' TERM; sleep 1000 & echo $!; wait; wait; wait"])
    lines = command.lines()
    holds = int(next(lines))
    command.stop(0.1)
    assert list(lines) == []
    assert command.code() == -signal.SIGKILL
    wait_for("it is ended, too", lambda: not is_alive(holds), within_s=30)


def is_alive(process: int) -> bool:
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
