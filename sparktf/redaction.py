"""Removes secrets from settings and texts that are shown or stored; Spark's own placeholder replaces them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

REDACTED = "*********(redacted)"

# Spark's own `spark.redaction.regex`, and the clouds' names of keys; a model's `tokens` or `tokenizer` do not match.
# Neither does spark.kerberos.renewal.credentials, which says where tickets are: keytab or ccache.
_SECRET_KEY = re.compile(
    r"(?i)secret|passw|passphrase|token$|^spark\..*token|(?<!kerberos\.renewal\.)credentials?$|authorization$|webhook"
    r"|(access|account|private|api|auth)[._-]?key"
)
_SECRET_WORDS = {"pwd", "jwt", "pat", "bearer", "cookie", "cookies", "dsn", "sas"}
"""Too short to be found within other words: `pattern` contains one."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_NAME = (
    r"(?:secret|passw\w{0,20}|passphrase|credentials?|webhook\w{0,12}|token(?![a-z])"
    r"|(?:access|account|private|api|auth)[._-]?key|(?<![a-z])(?:pwd|jwt|pat|bearer|cookie|dsn|sas|sig|delegation)(?![a-z]))"
)
_VALUE = r"""(?:'[^']*'|"[^"]*"|[^\s&;,'"]+)"""

# Texts may be long, and anybody's: nothing here takes more than a bounded look back.
_IN_TEXT = tuple(
    re.compile(f"(?i){pattern}")
    for pattern in (
        rf"({_NAME}[\w.-]{{0,40}}=){_VALUE}",  # password=x, -Dssl.keyPassword='x y', ?sig=x
        rf"(--?[\w-]{{0,40}}{_NAME}\s+)(?!-){_VALUE}",  # --token x
        rf"""(["'][\w.-]{{0,40}}{_NAME}["']\s{{0,9}}:\s{{0,9}}["'])[^'"]+""",  # "password": "x"
        r"(\bauthorization\W{1,4}(?:basic|bearer|digest|negotiate|token)\s+)[^\s,;'\"]+",
        r"(\bbearer\s+)[\w.~+/=-]{6,}",
        # A token by its own looks: JSON Web Tokens, GitHub's, Slack's, Hugging Face's.
        r"()\b(?:eyJ[\w-]{8,}\.[\w-]+\.[\w-]*|(?:gh[pousr]_|xox[a-z]-|hf_)\w[\w-]{8,})",
        # A webhook's address is its secret.
        r"(https?://[^\s/'\"]{0,100}hook[^\s/'\"]{0,100}/)[^\s'\"]+",
        r"(https?://[^\s'\"]{1,200}hooks?/)[^\s'\"]+",
        # ://me:x@host, and https://x@host; elsewhere the text before an @ is no secret: abfss://container@account
        r"(://[^/\s:@]{0,100}:)[^/\s]+(?=@)",
        r"(https?://)[^/\s:@]+(?=@)",
    )
)


def redacted(value: Any, key: str = "") -> Any:
    """Returns a value without its secrets: under secret keys, as options in a text, in an address.

    Lists and mappings are searched; `None` and bools are no secrets.

    Args:
        key: The key of the value.
    """
    return _redacted(value, hidden=is_secret_key(key))


def is_secret_key(key: str) -> bool:
    """Whether values of the key are secrets."""
    return _SECRET_KEY.search(key) is not None or any(word.lower() in _SECRET_WORDS for word in _WORD.findall(key))


def _redacted(value: Any, *, hidden: bool) -> Any:
    if isinstance(value, Mapping):
        return {k: _redacted(v, hidden=hidden or is_secret_key(str(k))) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redacted(v, hidden=hidden) for v in value]
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return value
    if hidden:
        return REDACTED if value != "" else value
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    for pattern in _IN_TEXT:
        text = pattern.sub(rf"\1{REDACTED}", text)
    return text
