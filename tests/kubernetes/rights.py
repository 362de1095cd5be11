"""What a driver's service account may do: the Role of docs/cluster/kubernetes, and what pods have asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import yaml

_RIGHTS = Path(__file__).parents[2] / "docs/cluster/kubernetes/rights.yaml"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class Right(NamedTuple):
    """One thing that a Role grants."""

    verb: str
    resource: str


class Rights:
    """The rights that are granted, and those that were used.

    Attributes:
        granted: By the Role.
        used: Also what was refused.
    """

    def __init__(self) -> None:
        """Reads the Role."""
        self.granted = frozenset(_granted(yaml.safe_load_all(_RIGHTS.read_text(encoding="utf-8"))))
        self.used: set[Right] = set()

    def refusal(self, method: str, path: str) -> str:
        """Returns why a request of a pod's is refused, as RBAC says it; "" if it is granted."""
        right = right_for(method, path)
        if right is None:  # anybody who is logged in may ask which version it is
            return ""
        self.used.add(right)
        if right in self.granted:
            return ""
        return f'{right.resource} is forbidden: User "system:serviceaccount:sparktf" cannot {right.verb} this resource'


def right_for(method: str, path: str) -> Right | None:
    """Returns the right that a request takes; None for what is no resource of a namespace."""
    parts = urlsplit(path)
    _, found, below = parts.path.partition("/namespaces/")
    _, _, resource = below.partition("/")
    if not found or not resource:
        return None
    kind, _, name = resource.partition("/")
    if method == "GET":
        watches = parse_qs(parts.query).get("watch") == ["true"]
        verb = "watch" if watches else "get" if name else "list"
    elif method == "DELETE":
        verb = "delete" if name else "deletecollection"
    else:
        verb = _VERBS[method]
    return Right(verb, "/".join([kind, *name.split("/")[1:]]))


def _granted(resources: Iterator[dict[str, Any]]) -> Iterator[Right]:
    for resource in resources:
        for rule in resource.get("rules", ()):
            yield from (Right(verb, kind) for kind in rule["resources"] for verb in rule["verbs"])
