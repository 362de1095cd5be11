"""docs/api.md says all that is public, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rooms import PAGE, page_with, picture
from unit.test_layering import MAY_IMPORT

import sparktf
from sparktf import Node, RunResult

ROOT = Path(__file__).parents[2]
API = (ROOT / "docs/api.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("name", sorted(set(sparktf.__all__) - {"__version__"}))
def test_every_public_name_is_told_of(name: str) -> None:
    assert re.search(rf"\b{name}\b", API)


def test_every_field_of_a_result_is_told_of() -> None:
    missing = [name for name in RunResult.model_fields if f"`{name}`" not in API and name != "extra"]
    assert not [name for name in missing if not name.startswith("application")]


def test_all_of_a_node_is_told_of() -> None:
    members = {*Node.__annotations__, *(name for name in vars(Node) if not name.startswith("_"))}
    assert not [name for name in members if f"node.{name}" not in API]


def test_each_room_has_one_home_on_the_map() -> None:
    drawn = re.findall(r'^        \w+\["(.+)"\]$', picture(), re.MULTILINE)
    assert sorted(drawn) == sorted(MAY_IMPORT.keys() - {"driver"}), "give it a home in tests/rooms.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert not [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]


def test_the_rooms_are_drawn_as_the_code_has_them() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with(picture(), page), "docs/architecture.md is out of date: run make docs"
