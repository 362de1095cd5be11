"""The tree of sections and keys as data, for error messages and the reference page."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

Key = tuple[str | int, ...]


def dotted(key: Key) -> str:
    """Returns a key as the user writes it: `data.inputs.pixels`."""
    return one_line(".".join(map(str, key)))


def one_line(text: str) -> str:
    """Returns text with unprintable characters, such as line ends, escaped."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def section_of(annotation: Any) -> type[BaseModel] | None:
    """Returns the section of an annotation, also within `X | None`, `dict[str, X]` and `Annotated`."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) not in (Annotated, Union, types.UnionType, dict):
        return None
    return next(filter(None, map(section_of, get_args(annotation))), None)


def section_at(key: Key, section: type[BaseModel]) -> type[BaseModel] | None:
    """Returns the section below `key` of a section; None for free-form values and unknown keys."""
    names = iter(key)
    for name in names:
        field = section.model_fields.get(str(name))
        inner = section_of(field.annotation) if field else None
        if field is None or inner is None:
            return None
        section = inner
        if get_origin(field.annotation) is dict and next(names, None) is None:
            return None  # the mapping itself: its keys are the user's own names
    return section


def walk_sections(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Yields a section and all nested ones with their dotted keys, outermost first; `<name>` stands for any name."""
    yield prefix, section
    for name, field in section.model_fields.items():
        inner = section_of(field.annotation)
        if inner is not None:
            below = f"{prefix}.{name}" if prefix else name
            yield from walk_sections(inner, f"{below}.<name>" if get_origin(field.annotation) is dict else below)


FREE_FORM = (("params",), ("data", "fill_null"))
"""Keys whose values may be of any type."""

COMMANDS = (("output", "on_end"),)
"""Commands, whose arguments may be anything: only the program is shown."""

MAY_HOLD_SECRETS = (("params",), ("submit", "conf"), *COMMANDS)
"""Keys whose values may be secrets: mappings with names of the user's or Spark's, and commands."""

DOTTED_NAMES = (("submit", "conf"),)
"""Mappings whose names contain dots: `--set submit.conf.spark.yarn.jars=...`."""
