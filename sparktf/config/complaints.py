"""Words pydantic's validation errors in one line for the author of the configuration."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sparktf.config.shape import COMMANDS, MAY_HOLD_SECRETS, Key, dotted, section_at, walk_sections
from sparktf.errors import ConfigError
from sparktf.redaction import REDACTED, redacted

_UNKNOWN = "extra_forbidden"
_MISSING = "missing"
_MAX_SHOWN = 60

# Error type of pydantic -> the allowed values; other types keep pydantic's message.
_ALLOWED: Mapping[str, str] = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a section with keys of its own",
    "too_short": "a mapping with at least one entry",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "literal_error": "one of {expected}",
    "string_too_short": "text that is not empty",
    "string_too_long": "text of at most {max_length} characters",
    "string_pattern_mismatch": "text that matches {pattern}",
}


@dataclass(frozen=True, slots=True)
class Validated:
    """The section that was validated."""

    section: type[BaseModel]
    key: Key = ()  # Where the section stands within the configuration
    # The configuration, in which a mistyped key may stand elsewhere; None if the section is the whole
    whole: type[BaseModel] | None = None

    def parent(self, key: Key) -> type[BaseModel] | None:
        """Returns the section that contains a key of the configuration; None if there is none."""
        return section_at(key[len(self.key) : -1], self.section)


def refusal(of: Validated, error: ValidationError, raw: object) -> ConfigError:
    """Returns the error for a section made in Python, with keys as they would stand in a file."""
    return ConfigError(first_of([message for _, message in describe(of, error, raw)]))


def first_of(messages: Sequence[str]) -> str:
    """Returns the first message and the number of the others."""
    more = len(messages) - 1
    return messages[0] + (f" (and {more} more)" if more else "")


def describe(of: Validated, error: ValidationError, raw: object) -> list[tuple[Key, str]]:
    """Returns the wrong keys, each with its message, the most useful one first.

    A mistyped key is often reported twice, as unknown and as missing: the unknown one comes first, with the remedy.
    """
    by_key: dict[Key, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        by_key.setdefault((*of.key, *_key(detail, raw)), []).append(detail)
    # A stable sort: of equals the first one comes first.
    keys = sorted(by_key, key=lambda key: by_key[key][0]["type"] != _UNKNOWN)
    return [(key, _message(of, key, by_key[key])) for key in keys]


def _key(detail: ErrorDetails, raw: Any) -> Key:
    """Returns the location of an error without the names that pydantic adds for members of a union."""
    key: list[str | int] = []
    for part in detail["loc"]:
        inside = part in raw if isinstance(raw, Mapping) else isinstance(raw, list) and isinstance(part, int)
        if inside:
            raw = raw[part]
        elif detail["type"] != _MISSING or part != detail["loc"][-1]:
            break
        key.append(part)
    return tuple(key)


def _message(of: Validated, key: Key, details: list[ErrorDetails]) -> str:
    where = dotted(key) or "the configuration"
    first = details[0]
    if first["type"] == _UNKNOWN:
        return f"{where} is unknown: {_remedy(of, key)}"
    if first["type"] == _MISSING:
        return f"{where} is missing: {_description(of, key)}"
    if first["type"] == "value_error":
        return f"{where}: {first['ctx']['error']}" if key else str(first["ctx"]["error"])
    if key[:2] in COMMANDS:
        found = REDACTED
    else:
        found = shown(redacted(first["input"], where) if key[:-1] in MAY_HOLD_SECRETS else first["input"])
    allowed = [_allowed(detail) for detail in details]
    if None in allowed:
        return f"{where} is {found}: {first['msg']}"
    return f"{where} is {found}: must be {' or '.join(dict.fromkeys(filter(None, allowed)))}"


def _allowed(detail: ErrorDetails) -> str | None:
    template = _ALLOWED.get(detail["type"])
    return template.format_map(detail.get("ctx", {})) if template else None


def shown(value: Any) -> str:
    """Returns a short text for a value."""
    if value is None:
        return "empty"
    text = str(value).lower() if isinstance(value, bool) else repr(str(value) if isinstance(value, str) else value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _description(of: Validated, key: Key) -> str:
    section = of.parent(key)
    field = section.model_fields.get(str(key[-1])) if section else None
    return (field.description or "").partition(". ")[0].rstrip(".") if field else ""


def _remedy(of: Validated, key: Key) -> str:
    """Returns the nearest key of the same section, else the nearest of any section, else all allowed keys."""
    name, parent = str(key[-1]), dotted(key[:-1])
    section = of.parent(key)
    siblings = list(section.model_fields) if section else []
    near = _nearest(name, siblings, cutoff=0.6)
    if near is not None:
        return f"did you mean {parent}.{near}?" if parent else f"did you mean {near}?"
    elsewhere: dict[str, list[str]] = {}
    for path, inner in walk_sections(of.whole or of.section):
        for field in inner.model_fields:
            elsewhere.setdefault(field, []).append(f"{path}.{field}".lstrip("."))
    near = _nearest(name, list(elsewhere), cutoff=0.8)
    if near is not None:
        return f"did you mean {' or '.join(elsewhere[near])}?"
    return f"allowed are {', '.join(siblings)}"


def _nearest(name: str, candidates: list[str], *, cutoff: float) -> str | None:
    found = difflib.get_close_matches(name.lower().replace("-", "_"), candidates, n=1, cutoff=cutoff)
    return found[0] if found else None
