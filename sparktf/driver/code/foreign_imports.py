"""The modules of others that the user's code needs wherever it is imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from importlib.util import resolve_name

from sparktf.driver.code.code_files import Files

_OURS = "sparktf"


def foreign_imports(modules: Iterable[str], files: Files) -> tuple[str, ...]:
    """Returns the top-level modules that importing the user's modules imports, neither Python's, sparktf's nor theirs.

    Only imports that nothing stands around count: what stands in a `try`, an `if` or a function may be for some
    machines alone.

    Args:
        files: The user's code, as it travels; modules that are not among them are not looked into.
    """
    waiting, seen, found = list(modules), set[str](), set[str]()
    own = {module.partition(".")[0] for module in waiting}
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        waiting += [module.rpartition(".")[0]] if "." in module else []  # packages are imported first
        name = next((name for name in _names(module) if name in files), None)
        if name is not None:
            package = module if name.endswith("__init__.py") else module.rpartition(".")[0]
            waiting += _imports(files[name].read_bytes(), package)
        elif not any(file.partition("/")[0] == module.partition(".")[0] for file in files):
            found.add(module.partition(".")[0])
    return tuple(sorted(found - own - sys.stdlib_module_names - {_OURS}))


def _names(module: str) -> tuple[str, str]:
    """Returns the possible names of a module's file; of two, Python's choice comes first."""
    path = module.replace(".", "/")
    return f"{path}/__init__.py", f"{path}.py"


def _imports(source: bytes, package: str) -> Iterator[str]:
    """Yields the absolute names of a file's plain imports; both `a` and `a.b` of `from a import b`."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):  # a trainer reports that in more detail
        return
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (package or not node.level):
            above = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
            yield above
            yield from (f"{above}.{alias.name}" for alias in node.names)
