"""Writes the reference page of the configuration from its models: `python -m sparktf.config.page`."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sparktf.config.duration import READ_DURATION
from sparktf.config.job import JobConfig
from sparktf.config.shape import section_of, walk_sections
from sparktf.config.yaml import dump_yaml

_HEADER = """\
# Configuration

<!-- Generated: python -m sparktf.config.page > docs/use/configuration.md -->

A run is described by one YAML file. `sparktf check CONFIG` shows what a file means, every default written out, and says
`ok` or all that is wrong, with the exit code that the run would have. Unknown keys are refused.

- `sparktf check` looks at what takes no Spark: code, files and columns, and room on `--master` (by default what a run
  from here would take: that of the section `submit`, where there is one or Hadoop is configured, else Spark's). What it
  has not looked at, it says. `--deep` does all that a run does before it holds anything, with Spark on this machine
  where that is needed, builds the model in a process of its own and compares it with its inputs and targets, and writes
  to `output.path` for a moment; `--no-deep` looks at the file alone.
- `--set a.b=c` replaces one value, e.g. `--set train.epochs=3`; the value is YAML. Sections that are missing are made.
- `--date 2026-11-20` fills templates in any text: `{{date}}` that day, `{{date-7}}` seven days before, `{{date+1}}` the
  day after, all as YYYY-MM-DD. `{{name}}` is the run's name. A value that starts with a template needs quotes.
- Plain values are read as in YAML 1.2: `1e-3` is a number; `2026-11-20` and `12:30` are text; only `true` and `false`
  are bools. A bare `on`, `off`, `yes` or `no` is taken where the key says whether a bool or text is meant, and refused
  where it does not (`params`, `data.fill_null`). A key given twice is an error. Anchors and aliases may say at most
  4 MiB of text, nested at most 100 deep.
"""

_SCALARS = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Any: "anything",
    type(None): "null",
}
_BOUNDS = {annotated_types.Gt: ("gt", ">"), annotated_types.Ge: ("ge", "≥"), annotated_types.Lt: ("lt", "<")}
_BOUNDS |= {annotated_types.Le: ("le", "≤")}


def reference_page() -> str:
    """Returns docs/use/configuration.md."""
    paths: dict[type[BaseModel], list[str]] = {}
    for path, section in walk_sections(JobConfig):
        paths.setdefault(section, []).append(path or "The file")
    titles = {section: " and ".join(found) for section, found in paths.items()}
    return "\n".join((_HEADER, *(_section(section, titles) for section in titles)))


def _section(section: type[BaseModel], titles: Mapping[type[BaseModel], str]) -> str:
    title = titles[section].replace("<", "&lt;").replace(">", "&gt;")
    rows = (_row(name, field, titles) for name, field in section.model_fields.items())
    table = "\n".join(("| key | type | default | meaning |", "|---|---|---|---|", *rows))
    return f"## {title}\n\n{inspect.cleandoc(section.__doc__ or '')}\n\n{table}\n"


def _row(name: str, field: FieldInfo, titles: Mapping[type[BaseModel], str]) -> str:
    inner = section_of(field.annotation)
    if inner is None:
        kind = _type(Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation)
    else:
        # The anchor that Markdown viewers make of the title.
        anchor = "".join(c for c in titles[inner].lower().replace(" ", "-") if c.isalnum() or c in "_-")
        kind = f"[{'name -> section' if get_origin(field.annotation) is dict else 'section'}](#{anchor})"
    cells = (f"`{name}`", kind, _default(field), field.description or "")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if isinstance(field.default, BaseModel):
        return "its defaults"
    if field.default is None:
        return "none"
    if isinstance(field.default, tuple) and field.default:
        return f"`[{', '.join(map(str, field.default))}]`"
    return f"`{dump_yaml(field.default).removesuffix('...' + chr(10)).strip()}`"


def _type(annotation: Any) -> str:
    """Returns a type in words, e.g. `whole number > 0 or null`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        plain = f"{_type(arguments[0])} {' and '.join(_constraints(arguments[1:]))}".strip()
        return "seconds, or text such as `90s`, `30m`, `2h`, `7d`" if READ_DURATION in arguments else plain
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(member) for member in arguments if member is not type(None))
    if origin is tuple:
        return f"list of {_type(arguments[0])}" if Ellipsis in arguments else f"[{', '.join(map(_type, arguments))}]"
    if origin is dict:
        return f"name -> {_type(arguments[1])}"
    return _SCALARS[annotation]


def _constraints(metadata: tuple[Any, ...]) -> Iterator[str]:
    for item in metadata:
        if type(item) in _BOUNDS:
            attribute, sign = _BOUNDS[type(item)]
            yield f"{sign} {getattr(item, attribute)}"
        elif getattr(item, "pattern", None) is not None:
            yield f"like `{item.pattern}`"


if __name__ == "__main__":
    print(reference_page(), end="")
