"""Reads a YAML file, `--set` and `--date` into one validated `JobConfig`, and writes it back.

Every error is a `ConfigError` of one line: the origin, the dotted key, the value found and the allowed ones.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sparktf.config.complaints import Validated, describe, first_of, shown
from sparktf.config.job import JobConfig
from sparktf.config.shape import (
    COMMANDS,
    DOTTED_NAMES,
    FREE_FORM,
    MAY_HOLD_SECRETS,
    Key,
    dotted,
    one_line,
    section_of,
)
from sparktf.config.yaml import BareSwitch, YamlError, dump_yaml, load_yaml
from sparktf.errors import ConfigError
from sparktf.redaction import REDACTED, redacted

_TEMPLATE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_DATE_TEMPLATE = re.compile(r"date\s*(?:([-+])\s*(\d{1,6}))?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

_OPTIONAL_SECTIONS = tuple(
    name
    for name, field in JobConfig.model_fields.items()
    if not field.is_required() and (section_of(field.annotation) or isinstance(field.default, dict))
)
"""Top-level keys that may be left out: one whose lines are all commented out means its defaults."""


@dataclass(frozen=True, slots=True)
class Override:
    """One `--set a.b=c`; `text` is the argument in one line."""

    text: str
    key: tuple[str, ...]
    value: Any


def load_config(path: str | Path, overrides: Sequence[str] = (), date: str | None = None) -> JobConfig:
    """Returns the configuration of a YAML file, whose folder is searched first for the modules that it names.

    Args:
        overrides: `a.b=c` each, as given to `--set`; the value is YAML.
        date: ISO day that fills `{{date}}`, `{{date-7}}` and `{{date+1}}`.

    Raises:
        ConfigError: the file cannot be read, or the file, an override or the date is wrong.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not a text file in UTF-8: save it as one") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    return parse_config(text, overrides, date, source=str(path)).in_folder(Path(path).parent)


def parse_config(
    text: str, overrides: Sequence[str] = (), date: str | None = None, *, source: str = "configuration"
) -> JobConfig:
    """Returns the configuration of a YAML text; errors begin with `source`.

    Raises:
        ConfigError: the text, an override or the date is wrong.
    """
    raw = _mapping(text, source)
    changes = [_override(override) for override in overrides]
    for change in changes:
        _apply(raw, change)

    def origin(key: Key) -> str:
        """Returns the last `--set` that wrote the key, a parent of it, or (for a section) a child; else the file."""
        common = ((change, min(len(key), len(change.key))) for change in changes)
        at = [change.text for change, n in common if n and key[:n] == change.key[:n]]
        return f"--set {at[-1]}" if at else source

    for section in _OPTIONAL_SECTIONS:
        if section in raw and raw[section] is None:  # all its keys are commented out
            raw[section] = {}
    _refuse_switches(raw, origin)
    _refuse_redacted(raw, origin)
    day = _day(date)
    filled = _fill_templates(raw, day, origin)
    try:
        # Not model_validate, whose errors do not say where a key was written.
        config: JobConfig = JobConfig.__pydantic_validator__.validate_python(filled)
    except ValidationError as error:
        lines = tuple(f"{origin(key)}: {message}" for key, message in describe(Validated(JobConfig), error, filled))
        refused = ConfigError(first_of(lines))
        refused.all_wrong = lines
        raise refused from None
    return config if day is None else config.for_day(day)


def dump_config(config: JobConfig) -> str:
    """Returns the configuration as YAML with all defaults; `parse_config` reads it back as an equal one."""
    return dump_yaml(_plain(config))


def show_config(config: JobConfig) -> str:
    """Returns the YAML of `dump_config` with secrets redacted, to be shown and stored."""
    plain = _plain(config)
    for section in MAY_HOLD_SECRETS:
        *above, key = section
        if (holder := _at(plain, above)).get(key) is not None:
            holder[key] = _program(holder[key]) if section in COMMANDS else redacted(holder[key])
    return dump_yaml(plain)


def _program(command: Sequence[str]) -> list[str]:
    """Returns a command with its arguments redacted."""
    return [redacted(command[0]), *([REDACTED] if len(command) > 1 else [])]


def _plain(config: JobConfig) -> dict[str, Any]:
    plain = config.model_dump(exclude_none=True)
    plain["params"] = config.params  # the user's own Nones mean something
    return plain


def _mapping(text: str, source: str) -> dict[str, Any]:
    try:
        raw = load_yaml(text)
    except YamlError as error:
        raise ConfigError(f"{source}: {error}") from None
    if not isinstance(raw, dict):
        found = "is empty" if raw is None else f"is {shown(raw)}"
        raise ConfigError(f"{source}: {found}: a configuration is a mapping of name, model, data, output, ...")
    return raw


def _override(text: str) -> Override:
    path, equals, value = text.partition("=")
    key = _split(path.strip())
    if not equals or not all(key):
        raise ConfigError(f"--set {one_line(text)}: write it as section.key=value")
    shows = REDACTED if key[:2] in COMMANDS else redacted(value, path)
    text = one_line(f"{path}={shows}")  # as errors show it
    if value.lstrip().startswith("{{"):  # a template; to YAML it would be a mapping
        return Override(text, key, value.strip())
    try:
        return Override(text, key, load_yaml(value))
    except YamlError as error:
        raise ConfigError(f"--set {text}: the value is not YAML: {error}") from None


def _split(path: str) -> tuple[str, ...]:
    key = tuple(path.split("."))
    depth = next((len(section) for section in DOTTED_NAMES if key[: len(section)] == section), len(key))
    return (*key[:depth], ".".join(key[depth:])) if len(key) > depth else key


def _apply(raw: dict[str, Any], change: Override) -> None:
    section = raw
    for depth, part in enumerate(change.key[:-1], start=1):
        if section.get(part) is None:
            section[part] = {}
        section = section[part]
        if not isinstance(section, dict):
            path = ".".join(change.key[:depth])
            raise ConfigError(f"--set {change.text}: {path} is {shown(section)}, which has no key {change.key[depth]}")
    section[change.key[-1]] = change.value


def _refuse_switches(raw: Mapping[str, Any], origin: Callable[[Key], str]) -> None:
    """Refuses a bare `off` under keys of any type, which could be a bool or text."""
    for section in FREE_FORM:
        for key, value in _leaves(_at(raw, section), section):
            if isinstance(value, BareSwitch):
                meant = "true" if value.lower() in ("on", "yes") else "false"
                remedy = f"a bare {value} is ambiguous: write {meant}, or '{value}' for the text"
                raise ConfigError(f"{origin(key)}: {dotted(key)}: {remedy}")


def _refuse_redacted(raw: Mapping[str, Any], origin: Callable[[Key], str]) -> None:
    """Refuses the placeholder that `show_config` writes for a secret: it would be used as the secret."""
    for section in MAY_HOLD_SECRETS:
        for key, value in _leaves(_at(raw, section), section):
            if isinstance(value, str) and REDACTED in value:
                where = "was taken out where the configuration was shown or stored"
                raise ConfigError(f"{origin(key)}: {dotted(key)} {where}: give the secret itself")


def _fill_templates(raw: dict[str, Any], day: dt.date | None, origin: Callable[[Key], str]) -> dict[str, Any]:
    """Replaces templates, first that of `name`, which others may contain."""
    known: dict[str, str] = {}

    def filled(value: Any, key: Key) -> Any:
        if isinstance(value, dict):
            return {k: filled(v, (*key, k)) for k, v in value.items()}
        if isinstance(value, list):
            return [filled(v, (*key, i)) for i, v in enumerate(value)]
        if not isinstance(value, str) or "{{" not in value:
            return value
        try:
            return _fill(value, day, known)
        except ValueError as error:
            raise ConfigError(f"{origin(key)}: {dotted(key)}: {error}") from None

    name = filled(raw.get("name"), ("name",))
    if isinstance(name, str):
        known["name"] = name
    return {key: name if key == "name" else filled(value, (key,)) for key, value in raw.items()}


def _fill(text: str, day: dt.date | None, known: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        template = found.group(1).strip()
        if template in known:
            return known[template]
        shift = _DATE_TEMPLATE.fullmatch(template)
        if shift is None:
            raise ValueError(f"{found.group()} is unknown: write {{{{date}}}}, {{{{date-7}}}} or {{{{name}}}}")
        if day is None:
            raise ValueError(f"{found.group()} needs --date YYYY-MM-DD")
        try:
            return (day + dt.timedelta(days=int(f"{shift.group(1) or ''}{shift.group(2) or 0}"))).isoformat()
        except OverflowError:
            raise ValueError(f"{found.group()} is no day of the calendar") from None

    filled = _TEMPLATE.sub(value, text)
    if "{{" in _TEMPLATE.sub("", text):
        raise ValueError(f"{text!r} opens {{{{ and does not close it")
    return filled


def _day(date: str | None) -> dt.date | None:
    if date is None:
        return None
    try:
        if not _DATE.fullmatch(date):
            raise ValueError("not YYYY-MM-DD")
        return dt.date.fromisoformat(date)
    except ValueError:
        raise ConfigError(f"--date {date}: must be a day of the calendar as YYYY-MM-DD") from None


def _at(raw: Mapping[str, Any], key: Iterable[str | int]) -> Any:
    value: Any = raw
    for part in key:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _leaves(value: Any, key: Key) -> Iterator[tuple[Key, Any]]:
    if isinstance(value, dict):
        for k, v in value.items():
            yield from _leaves(v, (*key, k))
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from _leaves(v, (*key, i))
    else:
        yield key, value
