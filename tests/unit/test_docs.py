"""docs/use/api.md says all that is public, and links lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from rooms import PAGE, page_with, picture
from source_trees import ROOT, nodes, tree_of
from unit.test_layering import MAY_IMPORT

import sparktf
import sparktf.ml
from sparktf import Node, RunResult

API = (ROOT / "docs/use/api.md").read_text(encoding="utf-8")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

_LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_PATH = re.compile(r"`([\w./-]+(?:/|\.(?:py|md)))`")

INSIDE = ROOT / "docs/inside"


def anchors(page: Path) -> set[str]:
    """Returns what Markdown viewers make of the headings of a page."""
    titles = _HEADING.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))
    plain = (title.replace("&lt;", "").replace("&gt;", "").strip().lower().replace(" ", "-") for title in titles)
    return {"".join(c for c in title if c.isalnum() or c in "_-") for title in plain}


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


def test_each_folder_of_sparktf_stands_once_in_the_layout() -> None:
    layout = re.findall(r"^sparktf/(\w+)/", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(layout) == sorted(path.parent.name for path in ROOT.glob("sparktf/*/__init__.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = _LINK.findall(page.read_text(encoding="utf-8"))
    assert not [link for link, _ in links if not (page.parent / link).exists()]
    files = ((page.parent / link if link else page, anchor) for link, anchor in links if anchor)
    assert not [(file.name, anchor) for file, anchor in files if anchor not in anchors(file)]


@pytest.mark.parametrize("page", sorted(INSIDE.glob("*.md")), ids=lambda page: page.name)
def test_the_files_that_whoever_changes_it_is_sent_to_are_there(page: Path) -> None:
    named = set(_PATH.findall(page.read_text(encoding="utf-8")))
    assert not [
        path for path in sorted(named) if not any((ROOT / at / path).exists() for at in ("", "sparktf", "tests"))
    ]


def test_how_to_change_it_names_files_for_each_thing() -> None:
    parts = (INSIDE / "changing.md").read_text(encoding="utf-8").split("\n## ")[1:]
    things = ["storage", "format", "kind of table", "master", "check", "strategy", "configuration section", "message"]
    named = {part.partition("\n")[0]: len(_PATH.findall(part)) > 3 for part in parts}
    assert named == dict.fromkeys((f"A {thing}" for thing in things), True)


_ROW = re.compile(r"^\| ([^|`]+?) \|", re.MULTILINE)
_CLASS = re.compile(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)*)`")


def test_the_glossary_gives_each_word_one_meaning_and_names_classes_that_are_there() -> None:
    meanings, _, doubled = (INSIDE / "glossary.md").read_text(encoding="utf-8").partition("## Words that had two")
    words = [word for row in _ROW.findall(meanings) if row != "word" for word in row.split(", ")]
    assert sorted(words) == sorted(set(words))
    assert len(_ROW.findall(doubled)) <= 1 + 14, "none is added: give what is new a word of its own"
    classes = {
        node.name
        for path in (ROOT / "sparktf").rglob("*.py")
        for node in nodes(tree_of(path))
        if isinstance(node, ast.ClassDef)
    }
    assert not set(_CLASS.findall(meanings + doubled)) - classes - {"ClusterCoordinator"}, "it has another name by now"


def test_the_rooms_are_drawn_as_the_code_has_them() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with(picture(), page), "docs/inside/architecture.md is out of date: run make docs"


def test_the_reference_of_the_site_has_all_public_names_but_the_errors() -> None:
    text = (ROOT / "docs/site/reference.rst").read_text(encoding="utf-8")
    errors = {name for name in sparktf.__all__ if name.endswith("Error") and name != "SparkTFError"}
    names = {*sparktf.__all__, *sparktf.ml.__all__} - errors - {"__version__"}
    assert not [name for name in sorted(names) if not re.search(rf":: (?:[\w.]+\.)?{name}$", text, re.MULTILINE)]
