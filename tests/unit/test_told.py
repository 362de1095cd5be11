"""What people are told, whatever somebody else's text holds: printable, bounded, without secrets."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

import sparktf
from sparktf.errors import ErrorRecord, Verdict, record_of
from sparktf.redaction import REDACTED, redacted
from sparktf.told import (
    MESSAGE_NBYTES,
    TRACE_NBYTES,
    line_of_error,
    log_of,
    told,
    told_lines,
    typed_line_of_error,
    words_of_error,
)

SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot read [/lake/x]: [none, 3] [link=http://evil]", "cannot read [/lake/x]: [none, 3] [link=http://evil]"),
        ("a\x00b", "a\\x00b"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("one\r\ntwo\n three", "one two  three"),
        ("\u202eevil\u2028", "\\u202eevil"),
        ("\udc80 is no text", "\\udc80 is no text"),
        ("größer 日本 \xa0 ok", "größer 日本 \xa0 ok"),
    ],
)
def test_a_message_is_what_a_terminal_prints(text: str, shown: str) -> None:
    assert told(text) == shown
    assert told(told(text)) == told(text)


@pytest.mark.parametrize("character", ["x", "ö", "\x00", "[", "hunter=", "-", "://"])
def test_a_message_is_bounded_at_once_whatever_it_holds(character: str) -> None:
    started_s = time.process_time()
    long = told(character * 200_000)
    lines = told_lines(f"{character}\n" * 200_000)
    assert time.process_time() - started_s < 2
    assert len(long.encode()) <= MESSAGE_NBYTES
    assert long.endswith(f"({len(character) * 200_000:,} characters in all)")
    assert len(lines.encode()) <= TRACE_NBYTES
    assert told(long) == long
    assert told_lines(lines) == lines


def test_a_record_is_printable_from_the_moment_it_is_made() -> None:
    record = ErrorRecord(
        type="DataError",
        message="\x1b[31m/lake/x: \x00 " + "x" * 200_000,
        verdict=Verdict.DATA_REFUSED,
        time_s=0.0,
        traceback="File a\n  b\n\x1b]0;owned",
        log_tail=f"connecting to https://me:{SECRET}@host",
    )
    assert record.message.startswith("\\x1b[31m/lake/x: \\x00 xxx")
    assert len(record.message) <= MESSAGE_NBYTES
    assert str(record.to_error()) == record.message
    assert record.traceback == "File a\n  b\n\\x1b]0;owned"
    assert SECRET not in record.log_tail
    assert ErrorRecord.model_validate_json(record.model_dump_json()) == record


def test_an_error_whose_text_cannot_be_had_is_told_all_the_same() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise ValueError("no")

    assert words_of_error(Broken()) == "its text could not be had: ValueError"
    assert record_of(Broken(), time_s=0.0).message == "Broken: its text could not be had: ValueError"


@pytest.mark.parametrize(
    "text",
    [
        f"MLflow: https://me:{SECRET}@mlflow:5000/#/experiments/1",
        f"https://me:{SECRET}@x@host/ is away",
        f"https://{SECRET}@sentry.example/1",
        f"Authorization: Basic {SECRET}",
        f"{{'Authorization': 'Bearer {SECRET}'}}",
        f"curl -H 'bearer {SECRET}'",
        f"notify --token {SECRET} churn",
        f"notify --slack-webhook {SECRET}",
        f"posting to https://hooks.slack.com/services/T0/{SECRET} failed",
        f"https://discord.com/api/webhooks/1/{SECRET}",
        f"https://corp.webhook.office.com/x/{SECRET}",
        f"abfss://c@a/x?sv=1&sig={SECRET}&x=y",
        f"http://nn:9870/webhdfs/v1/lake?op=OPEN&delegation={SECRET}&offset=0",
        f"dsn={SECRET}",
        f"db_pwd={SECRET}; jwt={SECRET}",
        f"-Djavax.net.ssl.trustStorePassword='{SECRET} more'",
        f'{{"api_key": "{SECRET}"}}',
        "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.hunter2-hunter2",
        "ghp_hunter2-hunter2",
    ],
)
def test_a_secret_in_a_text_is_not_told(text: str) -> None:
    shown = told(text)
    assert SECRET not in shown
    assert REDACTED in shown
    assert told(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "column 'tokens' of 512 tokens: tokenizer=wordpiece, max_tokens=5",
        "abfss://container@account.dfs.core.windows.net/lake",
        "the signature=serving_default has no input 'pattern'",
        "there is no token: submit again",
        "hdfs://nn:8020/runs/churn@2026",
        "pathways=3, basic training",
        "https://nn:9870/webhdfs/v1/lake",
    ],
)
def test_what_only_looks_like_one_is(text: str) -> None:
    assert told(text) == text


@pytest.mark.parametrize(
    "key",
    ["pwd", "db.pwd", "dbPwd", "jwt", "pat", "github_pat", "bearer", "cookie", "sentryDsn", "slack_webhook", "sas"],
)
def test_what_stands_under_a_secrets_name_is_hidden(key: str) -> None:
    assert redacted({key: SECRET}) == {key: REDACTED}


@pytest.mark.parametrize("key", ["pattern", "path", "tokenizer", "tokens", "sass", "patience", "compat"])
def test_what_stands_under_another_name_is_shown(key: str) -> None:
    value: Any = redacted({key: SECRET})
    assert value == {key: SECRET}


def test_a_line_that_is_logged_is_told(caplog: pytest.LogCaptureFixture) -> None:
    log_of("sparktf.one").warning("left: %s, %d times", f"hdfs://ann:{SECRET}@nn/x\nmore", 3)
    log_of("sparktf.one").warning("100 %")
    assert caplog.messages == [f"left: hdfs://ann:{REDACTED}@nn/x more, 3 times", "100 %"]


def test_all_that_is_logged_is_logged_so() -> None:
    package = Path(sparktf.__file__).parent
    logs = {path for path in package.rglob("*.py") if re.search(r"logging\.getLogger", path.read_text("utf-8"))}
    # The other one has programs of that package log as it does.
    shows_others = "compat/tensorflowonspark/__init__.py"
    assert {str(path.relative_to(package)) for path in logs} == {"told.py", shows_others}


@pytest.mark.parametrize(
    ("error", "line", "typed"),
    [
        (ValueError("one\ntwo"), "one", "ValueError: one"),
        (ValueError("\n\n  Traceback:\nmore"), "Traceback:", "ValueError: Traceback:"),
        (KeyError("a column"), "a column", "KeyError: 'a column'"),
        (RuntimeError(), "RuntimeError", "RuntimeError"),
        (RuntimeError(" \n"), "RuntimeError", "RuntimeError"),
    ],
)
def test_the_first_line_of_an_error_says_something(error: Exception, line: str, typed: str) -> None:
    assert line_of_error(error) == line
    assert typed_line_of_error(error) == typed
    assert record_of(error, time_s=0.0).message == typed


def test_nobody_else_takes_the_first_line_of_an_error() -> None:
    package = Path(sparktf.__file__).parent
    taken = re.compile(
        r"str\((?:e|error|exception)\)(?:\.strip\(\))?\.(?:splitlines\(\)\)?(?:\[0\]| or )|partition\(.\\n)"
    )
    assert not [path for path in package.rglob("*.py") if taken.search(path.read_text("utf-8"))]
