"""Operators that submit a run: one that stays with it, and one that leaves it to YARN and a trigger."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from sparktf_airflow.command import Command
from sparktf_airflow.resource_manager import ResourceManager, run_tag
from sparktf_airflow.triggers import ApplicationTrigger
from sparktf_airflow.verdicts import conclude

_ID = re.compile(r"\bapplication_\d+_\d+\b")
_STOP_S = 120.0


class SparktfOperator(BaseOperator):  # type: ignore[misc]
    """Runs `sparktf submit` and stays with it to its end; a task that is killed stops its run in order.

    Args:
        config: The configuration's file.
        date: The run's date, and so its id: a try after the first goes on with the same run.
        sparktf: The command, in an environment of its own.
        options: More options of `sparktf submit`.
        env: What its environment is; None: that of the worker.
    """

    template_fields: Sequence[str] = ("config", "date", "options")

    def __init__(
        self,
        *,
        config: str,
        date: str = "{{ ds }}",
        sparktf: str = "sparktf",
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.date = date
        self.sparktf = sparktf
        self.options = list(options)
        self.env = env
        self._command: Command | None = None

    def execute(self, context: Any) -> None:
        """Runs it."""
        code, _ = self._submit()
        conclude(self._run, code)

    def on_kill(self) -> None:
        """Interrupts the command, as Ctrl-C does, and waits for sparktf to have ended its application."""
        if self._command is not None:
            self._command.stop(_STOP_S)

    @property
    def _run(self) -> str:
        return f"{self.config} {self.date}"

    def _submit(self, *options: str) -> tuple[int, str]:
        """Returns the exit code, and the id of the application if there was one."""
        line = [self.sparktf, "submit", self.config, "--date", self.date, *self.options, *options]
        application = ""
        self._command = Command(line, self.env)
        for said in self._command.lines():
            self.log.info("%s", said.rstrip())
            found = _ID.search(said)
            application = application or (found.group() if found else "")
        return self._command.code(), application


class SparktfYarnOperator(SparktfOperator):
    """Submits a run in cluster mode and waits for it in the triggerer, which holds no worker.

    A try that finds the run's application under way, after a worker was lost, waits for that one: the same user's, of
    the same configuration, options and date. A task that is marked
    or cleared, or has waited too long, ends its application.

    Args:
        resource_managers: "http://host:8088" of each.
        user: Whose applications these are to YARN.
        give_up_after: How long an application may take, from when it was submitted or found again.
        poll_s: Seconds between two looks at it.
    """

    def __init__(
        self,
        *,
        resource_managers: Sequence[str],
        user: str,
        give_up_after: timedelta = timedelta(hours=12),
        poll_s: float = 30.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.resource_managers = list(resource_managers)
        self.user = user
        self.give_up_after = give_up_after
        self.poll_s = poll_s

    def execute(self, context: Any) -> None:
        """Submits it, unless it is under way, and defers."""
        place = f"{self.dag_id}.{self.task_id}.{self.date}"
        tag, name = run_tag(place, self.config, self.options), f"sparktf {place}"
        application = ResourceManager(self.resource_managers, self.user).under_way(tag, name)
        if application is not None:
            self.log.info("%s is under way as %s: waiting for that", self._run, application)
        else:
            sets = (f"submit.conf.spark.yarn.tags=sparktf,{tag}", f"submit.conf.spark.app.name={name}")
            code, application = self._submit("--detach", *(word for value in sets for word in ("--set", value)))
            conclude(self._run, code)
        self.defer(
            trigger=ApplicationTrigger(
                application=application,
                resource_managers=self.resource_managers,
                user=self.user,
                give_up_at=(datetime.now(UTC) + self.give_up_after).timestamp(),
                poll_s=self.poll_s,
            ),
            method_name="ended",
        )

    def ended(self, context: Any, event: Mapping[str, Any]) -> None:
        """Resumes when the application has ended."""
        self.log.info("%s has ended with %s: yarn logs -applicationId %s", self._run, event, event["application"])
        if event["code"] is None:
            raise AirflowFailException(
                f"{self._run}: {event['application']} took more than {self.give_up_after}; killed"
            )
        conclude(self._run, int(event["code"]))
