"""Cleans text for people: printable, of bounded length, without secrets.

Messages come from anywhere: a path of the lake, a value of a row, a library's exception with a page of HTML in it.
Output functions get the result of `told`, and show it as it is: no markup, no template, no shell reads it.
"""

from __future__ import annotations

import logging
import unicodedata

from sparktf.redaction import redacted

MESSAGE_NBYTES = 4_000
"""Limit of one message, one line. An environment variable takes 128 KiB, a line of a log less."""

TRACE_NBYTES = 64_000
"""Limit of a traceback or a log's last lines."""


def told(text: str) -> str:
    """Returns a message on one line: printable, without secrets, and not longer than `MESSAGE_NBYTES` in UTF-8."""
    shown = _printable(" ".join(redacted(text[: 2 * MESSAGE_NBYTES]).splitlines()))
    return _first(shown, len(text), MESSAGE_NBYTES)


def told_lines(text: str) -> str:
    """Returns a text of several lines: printable, without secrets; beyond `TRACE_NBYTES` only the end."""
    shown = _printable(redacted(text[-2 * TRACE_NBYTES :]), keep="\n")
    return _last(shown, len(text), TRACE_NBYTES)


def log_of(module: str) -> logging.Logger:
    """Returns a module's logger, which cleans its messages by `told`."""
    log = logging.getLogger(module)
    log.addFilter(_told_record)
    return log


def _told_record(record: logging.LogRecord) -> bool:
    record.msg, record.args = told(record.getMessage()), None
    return True


def count_in_words(number: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun: "1 row", "2,000 rows"; `plural` where it is not `noun` + "s"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def words_of_error(error: BaseException) -> str:
    """Returns an error's message, also if its own `__str__` fails, which is somebody else's code."""
    # str() of a KeyError is its text as Python source.
    return _text_of(error.args[0] if isinstance(error, KeyError) and error.args else error)


def _text_of(value: object) -> str:
    try:
        return str(value)
    except Exception as e:  # noqa: BLE001 - the error is to be told of, whatever becomes of its text
        return f"its text could not be had: {type(e).__name__}"


def first_line_of(text: str, otherwise: str) -> str:
    """Returns the first line of a text that says something; `otherwise` where none does."""
    return next((line.strip() for line in text.splitlines() if line.strip()), otherwise)


def line_of_error(error: BaseException) -> str:
    """Returns the first line of an error's message; the error's type where it says nothing."""
    return first_line_of(words_of_error(error), type(error).__name__)


def typed_line_of_error(error: BaseException) -> str:
    """Returns an error's type with the first line of its message, if it says anything, as Python shows it."""
    return ": ".join(filter(None, (type(error).__name__, first_line_of(_text_of(error), ""))))


def _printable(text: str, keep: str = "") -> str:
    r"""Returns a text with unprintable characters escaped as in Python: `\x1b`, `\x00`, `\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _is_printable(c) or c in keep else _escaped(c) for c in text)


def _is_printable(character: str) -> bool:
    return character == "\t" or character.isprintable() or unicodedata.category(character) == "Zs"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _first(text: str, length: int, limit: int) -> str:
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    mark = f" ... ({length:,} characters in all)"
    return encoded[: limit - len(mark)].decode(errors="ignore") + mark


def _last(text: str, length: int, limit: int) -> str:
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    mark = f"(the last of {length:,} characters)\n"
    return mark + encoded[len(mark) - limit :].decode(errors="ignore")
