"""`make test` leaves out tests that say who tells the same: each promise keeps one (docs/inside/testing.md)."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from source_trees import nodes, tree_of
from split import covering, in_pairs, only

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs/inside/testing.md").read_text(encoding="utf-8")
MARK = "pytest.mark.more"


class One(NamedTuple):
    """A test.

    Attributes:
        name: As pytest calls it, below tests/.
        told_by: The tests that `make test` runs in its place; none for one that it runs.
    """

    name: str
    told_by: tuple[str, ...] | None


def told_by(marks: list[ast.expr], above: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Returns what a mark among some says, or what holds for all around."""
    for mark in marks:
        if ast.unparse(mark).startswith(MARK):
            return tuple(ast.literal_eval(name) for name in mark.args) if isinstance(mark, ast.Call) else ()
    return above


def found_in(body: list[ast.stmt], name: str, above: tuple[str, ...] | None) -> Iterator[One]:
    """Yields the tests of a module or class."""
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            marks = node.value.elts if isinstance(node.value, ast.List) else [node.value]
            above = told_by(marks, above)
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from found_in(node.body, f"{name}::{node.name}", told_by(node.decorator_list, above))
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield One(f"{name}::{node.name}", told_by(node.decorator_list, above))


ALL = [
    test
    for path in sorted(TESTS.rglob("test_*.py"))
    for test in found_in(tree_of(path).body, str(path.relative_to(TESTS)), None)
]
LEFT_OUT = [test for test in ALL if test.told_by is not None]


def test_a_test_that_is_left_out_names_others_that_are_not() -> None:
    run = {test.name for test in ALL if test.told_by is None}
    assert LEFT_OUT
    assert not [test.name for test in LEFT_OUT if not test.told_by]
    assert not {test.name: name for test in LEFT_OUT for name in test.told_by or () if name not in run}


def test_a_matrix_of_which_some_are_left_out_keeps_others() -> None:
    without: list[str] = []
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in nodes(tree_of(path)):
            if isinstance(node, ast.List) and MARK in ast.unparse(node):
                cases = [ast.unparse(case) for case in node.elts]
                if all(MARK in case for case in cases) and any("param(" in case for case in cases):
                    without.append(f"{path.relative_to(TESTS)}:{node.lineno}")
    assert not without


def test_the_page_names_each_file_of_which_make_test_runs_nothing() -> None:
    files = {test.name.partition("::")[0] for test in ALL}
    kept = {test.name.partition("::")[0] for test in ALL if test.told_by is None}
    assert not [name for name in files - kept if f"`{name}`" not in PAGE]


def test_suites_that_leave_out_tests_are_run_by_make_test_more() -> None:
    makefile = (TESTS.parent / "Makefile").read_text(encoding="utf-8")
    (suites,) = re.findall(r"^SUITES_MORE := (.+)$", makefile, re.MULTILINE)
    assert {test.name.partition("/")[0] for test in LEFT_OUT} <= {*re.findall(r"\w+", suites)}


def test_few_cases_have_each_pair_of_values() -> None:
    cases = list(itertools.product((1, 2, 3), "ab", "xyz", (True, False)))
    few = covering(cases)
    assert len(few) <= len(cases) // 3
    for i, j in itertools.combinations(range(4), 2):
        assert {(case[i], case[j]) for case in few} == {(case[i], case[j]) for case in cases}
    assert covering(cases) == few, "always the same ones"


def test_all_cases_of_a_matrix_are_run_by_one_or_the_other() -> None:
    cases = list(itertools.product("ab", (1, 2), "xy"))
    found = in_pairs(cases)
    assert [param.values for param in found] == [(case,) for case in cases]
    assert [param.values[0] for param in found if not param.marks] == [
        case for case in cases if case in covering(cases)
    ]
    assert {mark.name for param in found for mark in param.marks} == {"more"}


def test_values_of_a_parameter_that_are_not_run_are_left_to_the_other() -> None:
    kept, (values, marks, _) = only("a", of="ab")
    assert (kept, values, [mark.name for mark in marks]) == ("a", ("b",), ["more"])
    (values, _, _), kept = only(("b", 2), of=[("a", 1), ("b", 2)])
    assert (kept, values) == (("b", 2), ("a", 1)), "each value of a case is an argument"
    with pytest.raises(ValueError, match="are not some of"):
        only("c", of="ab")
