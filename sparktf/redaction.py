"""Secrets among settings that users name themselves: what is shown or stored has Spark's own words in their place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

REDACTED = "*********(redacted)"

# Spark's own `spark.redaction.regex`, and what clouds call their keys; a model's `tokens` or `tokenizer` are none.
_SECRET_KEY = re.compile(
    r"(?i)secret|passw|passphrase|token$|^spark\..*token|credentials?$|(access|account|private|api|auth)[._-]?key"
)
_IN_OPTION = re.compile(
    r"""(?i)((?:secret|passw\w*|pwd|token|(?:access|account|private|api)[._-]?key)[\w.-]*=)[^\s&;,'"]+"""
)
_IN_URL = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)")


def redacted(value: Any, key: str = "") -> Any:
    """Returns a value without its secrets: by the keys they stand under, as options in a text, in an address.

    Lists and mappings are looked through; `None` and bools are no secrets.

    Args:
        key: What the value stands under.
    """
    return _redacted(value, hidden=is_secret_key(key))


def is_secret_key(key: str) -> bool:
    """Whether what stands under the key is a secret."""
    return _SECRET_KEY.search(key) is not None


def _redacted(value: Any, *, hidden: bool) -> Any:
    if isinstance(value, Mapping):
        return {k: _redacted(v, hidden=hidden or is_secret_key(str(k))) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted(v, hidden=hidden) for v in value]
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return value
    if hidden:
        return REDACTED if value != "" else value
    if isinstance(value, str):
        return _IN_URL.sub(rf"\1{REDACTED}", _IN_OPTION.sub(rf"\1{REDACTED}", value))
    return value
