"""YAML for configurations: plain values are read as in YAML 1.2, and nothing is guessed.

PyYAML follows YAML 1.1, where `2026-11-20` is a date object, `1e-3` a text, `12:30` the number 750 and `no` false. Here
dates and times stay text, `1e-3` is a number, and only `true` and `false` are bools. A bare `on`, `off`, `yes` or `no`
becomes a `BareSwitch`: text that a bool field accepts, and that free-form keys refuse as ambiguous.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

_MAX_EXPANDED = 4 << 20
"""Characters of a text with its aliases expanded; a text without aliases may be longer."""
_MAX_DEPTH = 100

_TOO_DEEP = f"is nested too deeply: at most {_MAX_DEPTH} lists and mappings within each other"

_CORE_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map"))
_MERGE_TAG = "tag:yaml.org,2002:merge"
_SWITCH_TAG = "!switch"

# Tag, pattern and possible first characters of a plain scalar that is not text; the first match wins.
_PLAIN = (
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ("~", "n", "N", "")),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", tuple("tTfF")),
    (_SWITCH_TAG, r"(?i:on|off|yes|no)", tuple("oOyYnN")),
    ("tag:yaml.org,2002:int", r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F]+)", tuple("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        tuple("-+.0123456789"),
    ),
    (_MERGE_TAG, r"<<", ("<",)),
)


class YamlError(ValueError):
    """The text is not YAML that a configuration may contain; the message is one line."""


class BareSwitch(str):
    """A bare `on`, `off`, `yes` or `no`: false or true in YAML 1.1, text in YAML 1.2."""

    __slots__ = ()


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys, keys that are not text, and aliases that expand to more than fits into memory."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    yaml_constructors = {tag: build for tag, build in yaml.SafeLoader.yaml_constructors.items() if tag in _CORE_TAGS}

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            _check_size(node, max(_MAX_EXPANDED, node.end_mark.index))
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == _MERGE_TAG:
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise _problem(key, "a key must be text (a value that starts with {{...}} needs quotes)")
            if key.value in seen:
                raise _problem(key, f"{key.value} is given twice")
            seen.add(key.value)
            key.tag = "tag:yaml.org,2002:str"  # a column or parameter may be called `no`, `1` or `null`
        return node


class _Dumper(yaml.SafeDumper):
    """Quotes text that `_Loader` would read as another type."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _switch(loader: _Loader, node: yaml.ScalarNode) -> BareSwitch:
    return BareSwitch(loader.construct_scalar(node))


def _unknown(loader: _Loader, node: yaml.Node) -> Any:
    raise _problem(node, f"tag {node.tag} is not allowed")


for _tag, _pattern, _first in _PLAIN:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.add_constructor(_SWITCH_TAG, _switch)
_Loader.add_constructor(None, _unknown)
_Dumper.add_representer(BareSwitch, lambda dumper, value: dumper.represent_str(str(value)))


def load_yaml(text: str) -> Any:
    """Returns the value of one YAML document: mappings, lists, text, numbers, bools, None and `BareSwitch`.

    Raises:
        YamlError: it is not one document of plain YAML; names the line.
    """
    try:
        value = yaml.load(text, _Loader)
    except RecursionError:
        raise YamlError(_TOO_DEEP) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = str(error.problem)
        if problem.startswith("but "):  # the first half of the sentence
            problem = f"{error.context}, {problem}"
        raise YamlError(f"line {mark.line + 1 if mark else 1}: {problem}") from None
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())) from None
    except ValueError as error:
        raise YamlError(str(error)) from None
    return value


def dump_yaml(value: Any) -> str:
    """Returns YAML that `load_yaml` reads back as an equal value (tuples as lists)."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def flow_yaml(value: Any) -> str:
    """Returns a value as YAML on one line, which `load_yaml` reads back as an equal value (tuples as lists).

    Text in which YAML would break a line is text alone: no numbers stand beside it.
    """
    options: dict[str, Any] = {"sort_keys": False, "default_flow_style": True, "width": math.inf}
    shown = (
        str(yaml.dump(value, Dumper=_Dumper, allow_unicode=True, **options)).removesuffix("...\n").removesuffix("\n")
    )
    if len(shown.splitlines()) > 1:
        return str(yaml.dump(value, Dumper=_Dumper, default_style='"', **options)).removesuffix("\n")
    return shown


def _check_size(root: yaml.Node, limit: int) -> None:
    """Refuses a tree that is too large once its aliases are expanded; visits each node once.

    Raises:
        YamlError: it is too large or nested too deeply.
        MarkedYAMLError: an anchor contains itself.
    """
    sizes: dict[yaml.Node, tuple[int, int]] = {}
    open_nodes: set[yaml.Node] = set()

    def measure(node: yaml.Node) -> tuple[int, int]:
        """Returns characters and depth."""
        if isinstance(node, yaml.ScalarNode):
            return len(node.value) + 1, 0
        if node in open_nodes:
            raise _problem(node, "an anchor contains itself")
        if node not in sizes:
            open_nodes.add(node)
            parts = [measure(part) for part in _parts(node)]
            open_nodes.remove(node)
            sizes[node] = 2 + sum(size for size, _ in parts), 1 + max((depth for _, depth in parts), default=0)
        return sizes[node]

    size, depth = measure(root)
    if depth > _MAX_DEPTH:
        raise YamlError(_TOO_DEEP)
    if size > limit:
        raise YamlError(f"aliases (*name) make it larger than {limit >> 20} MiB: write out what it needs of them")


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value)


def _problem(node: yaml.Node, text: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(problem=text, problem_mark=node.start_mark)


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yields the leaves of nested mappings by dotted key: text unchanged, other values as JSON."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{key}.{name}" if key else str(name))
    else:
        yield key, value if isinstance(value, str) else json.dumps(value, default=str)
