"""The short names of principals: the rules of `hadoop.security.auth_to_local`, as Hadoop's own clients follow them.

A rule is `RULE:[components:format](match)s/from/to/g/L`, of which all but the brackets may be missing, or `DEFAULT`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:\[(?P<count>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<old>[^/]*)/(?P<new>[^/]*)/(?P<all>g)?)?/?(?P<lower>L)?)\s*"
)
_PART = re.compile(r"\$(\d)")


class _Rule(NamedTuple):
    components: int  # Components of the principals that it is about
    format: str  # "$1@$0": $0 is the realm
    match: str  # What has to be matched as a whole; "" for anything
    old: str | None
    new: str
    all: bool
    lower: bool

    def name(self, parts: Sequence[str]) -> str | None:
        """Returns the short name for a realm and components; None if the rule is about others."""
        if len(parts) - 1 != self.components:
            return None
        base = _PART.sub(lambda found: parts[int(found[1])] if int(found[1]) < len(parts) else "", self.format)
        if self.match and not re.fullmatch(self.match, base):
            return None
        if self.old is not None:
            base = re.sub(self.old, _PART.sub(r"\\g<\1>", self.new), base, count=0 if self.all else 1)
        return base.lower() if self.lower else base


def short_name(principal: str, rules: str = "") -> str:
    """Returns the user whom HDFS knows a principal as: "alice" of "alice/host@REALM" by default.

    Args:
        rules: The value of `hadoop.security.auth_to_local`; what cannot be understood of it counts as `DEFAULT`.
    """
    name, _, realm = principal.partition("@")
    parts = [realm, *name.split("/")]
    try:
        for rule in _rules(rules):
            found = parts[1] if rule is None else rule.name(parts)
            if found is not None:
                return found
    except re.error:
        pass  # Java's own expressions, such as \\p{Lower}
    return parts[1]


@functools.cache
def _rules(text: str) -> tuple[_Rule | None, ...]:
    """Returns the rules of a text, None for `DEFAULT`, up to the first one that is none."""
    found, at = list[_Rule | None](), 0
    while at < len(text):
        rule = _RULE.match(text, at)
        if rule is None or rule.end() == at:
            break
        at = rule.end()
        if rule["default"]:
            found.append(None)
            continue
        kept = rule["match"] or "", rule["old"], rule["new"] or ""
        found.append(_Rule(int(rule["count"]), rule["format"], *kept, bool(rule["all"]), bool(rule["lower"])))
    return tuple(found)
