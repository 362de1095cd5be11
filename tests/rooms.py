"""Draws the rooms of sparktf from the imports in its code: `python tests/rooms.py` writes them into a page of docs.

An arrow means "imports". Where one room reaches another by way of a third, no arrow of its own is drawn.
"""

from __future__ import annotations

import re
from pathlib import Path

from source_trees import ROOT, sources
from unit.test_layering import imports, is_in, module_of, reach, room_of

PAGE = ROOT / "docs" / "inside" / "architecture.md"

_BLOCK = re.compile(r"(?<=<!-- rooms: make docs -->\n).*?(?=<!-- rooms end -->)", re.DOTALL)
_HOMES = {
    "Programs of others": ("compat", "ml", "tfrecords"),
    "The Spark driver": ("api", "driver/", "main", "nightly", "predict", "published", "statistics"),
    "A Spark task on an executor": ("executor",),
    "A trainer's process": ("trainer", "layers"),
    "The machine that submits": ("submit", "runs", "preview", "doctor", "commands", "entry", "jobs", "console"),
    "In every process": ("feed", "storage", "wire", "config", "results", "process", "root"),
}


def arrows() -> dict[str, set[str]]:
    """Returns which rooms each room imports."""
    found: dict[str, set[str]] = {}
    for path in sources("sparktf", "jobs"):
        room = room_of(module_of(path))
        modules = (i.module for i in imports(path) if is_in(i.module, {"sparktf", "jobs"}))
        found.setdefault(room, set()).update({room_of(module) for module in modules} - {room, "driver"})
    found.pop("driver", None)
    return found


def direct(of: dict[str, set[str]]) -> dict[str, set[str]]:
    """Returns the arrows without those that a longer way stands for."""
    reached = {room: reach(of, room) for room in set(of).union(*of.values())}
    return {
        room: {t for t in targets if not any(t in reached[other] for other in targets - {t})}
        for room, targets in of.items()
    }


def picture() -> str:
    """Returns the rooms as a Mermaid chart in Markdown."""
    drawn = direct(arrows())
    lines = ["```mermaid", "flowchart TD"]
    for home, starts in _HOMES.items():
        lines.append(f'    subgraph "{home}"')
        lines += [f'        {_id(room)}["{room}"]' for room in sorted(drawn) if room.startswith(starts)]
        lines.append("    end")
    lines += [f"    {_id(room)} --> {_id(to)}" for room, targets in sorted(drawn.items()) for to in sorted(targets)]
    return "\n".join([*lines, "```", ""])


def page_with(chart: str, page: str) -> str:
    """Returns the page with the chart in its place."""
    return _BLOCK.sub(lambda _: chart, page)


def _id(room: str) -> str:
    return room.replace("/", "_")


if __name__ == "__main__":
    PAGE.write_text(page_with(picture(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {Path(PAGE).relative_to(ROOT)}")
