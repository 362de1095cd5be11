"""What an exit code of sparktf is to Airflow: docs/nights/scheduling.md has the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.providers.smtp.notifications.smtp import SmtpNotifier
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

DONE, DATA_REFUSED, INFRASTRUCTURE, GATED, NOT_READY, OWNED = 0, 3, 4, 5, 6, 7

_WORDS = {
    1: "the model's code failed",
    2: "refused: configuration or cluster has to be changed",
    DATA_REFUSED: "the data was refused",
    INFRASTRUCTURE: "the cluster did not carry it: it goes on with the next try",
    GATED: "the gate kept the old model",
    NOT_READY: "the data is not there yet",
    OWNED: "another submission trains it",
    130: "interrupted",
}


class RunRefusedError(AirflowFailException):  # type: ignore[misc]
    """A run that no other try would mend.

    Attributes:
        code: Exit code of sparktf.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def conclude(run: str, code: int) -> None:
    """Returns if a run is done; else it has Airflow retry it, skip what follows, or fail.

    Raises:
        AirflowSkipException: the gate kept the old model.
        AirflowException: another try may come right.
        RunRefusedError: none would.
    """
    if code == DONE:
        return
    said = f"{run}: exit code {code}, {_WORDS.get(code, 'it could not be run')}"
    if code == GATED:
        raise AirflowSkipException(said)
    if code in (INFRASTRUCTURE, NOT_READY, OWNED):
        raise AirflowException(said)
    raise RunRefusedError(said, code)


def tell(owners: str, data_team: str) -> Callable[[dict[str, Any]], None]:
    """Returns an on_failure_callback that mails to those whom it concerns, by the connection `smtp_default`."""

    # What failed says what it likes: it is a value of the template, never a part of it, and no HTML.
    def mail(context: dict[str, Any]) -> None:
        failure = context.get("exception")
        refused = isinstance(failure, RunRefusedError) and failure.code == DATA_REFUSED
        SmtpNotifier(
            from_email=owners,
            to=data_team if refused else owners,
            subject="{{ ti.dag_id }} {{ ds }} failed",
            html_content="<p>{{ sparktf_failure | e }}</p><p><a href='{{ ti.log_url | e }}'>log</a></p>",
        )({**context, "sparktf_failure": str(failure)})

    return mail
