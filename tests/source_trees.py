"""Source files as syntax trees, for tests that hold the code to its rules: parsed and walked once for them all."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]


def sources(*folders: str) -> list[Path]:
    """Returns the Python files below some of the project's folders."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Parses a file, and keeps the collector off its tree: there are hundreds of them, and none is garbage."""
    text, collects = path.read_text(encoding="utf-8"), gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, str(path))
    finally:
        if collects:
            gc.freeze()
            gc.enable()


@functools.cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Returns all nodes of a tree, as `ast.walk` yields them."""
    return tuple(ast.walk(tree))


def where(found: Callable[[Path], Iterable[str]], paths: Iterable[Path]) -> dict[str, list[str]]:
    """Returns the files in which a rule finds something, and what."""
    told = {str(path.relative_to(ROOT)): list(found(path)) for path in paths}
    return {path: places for path, places in told.items() if places}
