"""Whose is what is deleted, renamed or overwritten: each place that does so stands in docs/cluster/security.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from source_trees import ROOT, sources, tree_of

PAGE = ROOT / "docs/cluster/security.md"

DESTROYS = {
    "abort",
    "abort_multipart_upload",
    "delete",
    "insertInto",
    "move",
    "remove",
    "removedirs",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "rmtree",
    "take_in",
    "unlink",
    "upload",
    "upload_as",
    "write_bytes",
    "write_text",
}
"""Methods and functions by which something that lies in a file system may go, or become another."""

FUNCTIONS = {"abort_left", "discard", "replace_file", "replace_folder", "restore"}
"""Of `storage/transactions`, which do so for whoever calls them."""

NOT_FILES = {"np.delete", "self._leases.move"}
"""Calls that are called alike."""


def destroys(call: ast.Call) -> bool:
    """Whether something that lies in a file system may go by a call, or become another."""
    if isinstance(call.func, ast.Attribute):
        return is_of_files(call, call.func)
    return isinstance(call.func, ast.Name) and call.func.id in FUNCTIONS


def is_of_files(call: ast.Call, function: ast.Attribute) -> bool:
    """Whether a call is one of `DESTROYS`, and may be of a file: texts, times and lists have such methods too."""
    if function.attr not in DESTROYS or ast.unparse(function) in NOT_FILES:
        return False
    if function.attr == "replace":
        is_text = bool(call.args) and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
        return bool(call.args) and not is_text
    if function.attr == "remove":  # a list's takes one of its items
        return ast.unparse(function.value) == "os"
    return True


def calls(tree: ast.AST, inside: tuple[str, ...] = ()) -> Iterator[tuple[str, ast.Call]]:
    """Yields each call that may destroy, with the function that it stands in."""
    for node in ast.iter_child_nodes(tree):
        named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        within = (*inside, node.name) if named else inside  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and destroys(node):
            yield ".".join(inside), node
        yield from calls(node, within)


def found() -> set[tuple[str, str]]:
    """Returns module and function of each place."""
    return {
        (str(path.relative_to(ROOT / "sparktf")), function)
        for path in sources("sparktf")
        for function, _ in calls(tree_of(path))
    }


def told() -> set[tuple[str, str]]:
    """Returns module and function of each row of the table, which names several in a cell."""
    section = PAGE.read_text(encoding="utf-8").partition("## What is deleted, renamed or overwritten")[2]
    rows = re.findall(r"^\| `(\S+\.py)` (.*?) \|", section.partition("\n## ")[0], re.M)
    return {(module, function) for module, cell in rows for function in re.findall(r"`([^`]+)`", cell)}


def test_each_place_that_destroys_says_whose_it_is_and_how_that_is_known() -> None:
    assert found() - told() == set(), "add a row to docs/cluster/security.md: whose is it, and how do we know?"
    assert told() - found() == set(), "these do so no more"


def test_none_is_overlooked() -> None:
    source = """
class A:
    def f(self):
        self._storage.delete(path)
        [aside.rename(x) for x in y]
        discard(storage, path), {1}.discard(1)
        text.replace("a", "b"), time.replace(tzinfo=None), items.remove(one)
    def g(self):
        def inner():
            os.replace(a, b)
        with x:
            os.remove(path)
shutil.rmtree(z)
"""
    assert [(where, ast.unparse(call.func)) for where, call in calls(ast.parse(source))] == [
        ("A.f", "self._storage.delete"),
        ("A.f", "aside.rename"),
        ("A.f", "discard"),
        ("A.g.inner", "os.replace"),
        ("A.g", "os.remove"),
        ("", "shutil.rmtree"),
    ]
