"""The user's modules: their search path, their definitions, and the errors that they raise on the driver.

None is imported for that: model modules import TensorFlow, which the driver has no other use for.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, TracebackType

from sparktf.config.job import JobConfig
from sparktf.errors import ConfigError, ErrorRecord, ModelContractError, ModelError, SparkTFError, Verdict
from sparktf.process.module_search import find_module
from sparktf.told import typed_line_of_error

# Star imports of these say nothing about the functions that a configuration names.
_KNOWN = sys.stdlib_module_names | {"tensorflow", "keras", "tf_keras", "numpy"}
PARAMETERS = "_PARAMETERS"
"""Of a module that sparktf has made: the number of parameters of each of its functions."""

_DYNAMIC = {"exec", "globals", "setattr", "vars", "locals"}


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a module binds at its top level."""

    bound: frozenset[str]  # Names of functions, classes, imports and assignments, also within `if` and `try`
    functions: tuple[str, ...]  # Names of its own functions
    stars: tuple[str, ...]  # Modules that it imports all names of; relative ones begin with dots
    is_dynamic: bool  # Whether it may bind further names in ways that its text does not show


def code_folders(beside: Path | None) -> list[str]:
    """Returns the folders searched for a module before Python's own; `beside` is that of a configuration file."""
    return list(dict.fromkeys(str(folder.absolute()) for folder in (beside, Path()) if folder is not None))


def search_path(beside: Path | None, more: Sequence[str] = ()) -> list[str]:
    """Returns the search path of modules, in order; no other code decides it.

    Beside the configuration, in the working folder, in `more`, then Python's own path: beside the program, from
    `--py-files`, on PYTHONPATH, among installed packages. Modules from a folder of the user's are sent to the
    executors, where they come first: they find the same.
    """
    return [*code_folders(beside), *more, *sys.path]


@contextmanager
def importable(beside: Path | None) -> Iterator[None]:
    """Lets this process import modules from `search_path`, for a while."""
    added = code_folders(beside)
    sys.path[:0] = added
    try:
        yield
    finally:
        for folder in added:
            with suppress(ValueError):
                sys.path.remove(folder)


def source_of(found: ModuleSpec) -> str | None:
    """Returns the text of a module, which may lie in a zip; None without one, as for a compiled module."""
    get_source = getattr(found.loader, "get_source", None)
    try:
        source: str | None = get_source(found.name) if get_source is not None else None
    except (ImportError, OSError):
        return None
    return source


def require_module(key: str, module: str, beside: Path | None, more: Sequence[str] = ()) -> ModuleSpec:
    """Returns the location of the module that a key of the configuration names.

    Raises:
        ConfigError: it is not found; says where it was looked for.
    """
    found = find_module(module, search_path(beside, more))
    if found is None:
        folders = ", ".join(f"in {folder}" for folder in code_folders(beside)[:-1])
        raise ConfigError(
            f"{key}: there is no module {module} {folders}{', ' if folders else ''}in the working folder "
            f"{Path().absolute()}, on PYTHONPATH or in --py-files (submit.py_files)"
        )
    return found


def check_code(config: JobConfig) -> dict[str, str]:
    """Refuses a configuration whose modules or functions the driver does not find; returns each module's file by key.

    A module that only the nodes have is refused as well: nothing would show whether it has a `prepare`.

    Raises:
        ConfigError: a module is missing, or `data.source` names no function of its module.
        ModelContractError: `model` names none.
    """
    beside = config.code_folder
    path, files = search_path(beside), {}
    for key, module in config.modules.items():
        files[key] = require_module(key, module, beside).origin or module
        function = config.function_of(key)
        if binds(module, function, path) is False:
            has = ", ".join(sorted(names_of(module, path).functions)) or "none"
            error = ModelContractError if key == "model" else ConfigError
            raise error(f"{key}: module {module!r} has no function {function!r} (it has: {has})")
    return files


def binds(module: str, name: str, path: Sequence[str]) -> bool | None:
    """Whether a module has a name at its top level; None where its text does not tell."""
    return _binds(module, name, path, frozenset())


def parameter_count(module: str, function: str, path: Sequence[str]) -> int | None:
    """Returns how many parameters a function of a module takes; None where the module's text does not tell."""
    found = find_module(module, path)
    source = source_of(found) if found is not None else None
    try:
        tree = ast.parse(source or "")
    except (SyntaxError, ValueError):
        return None
    counts: list[int | None] = []
    for node in _top_level(tree):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            args = node.args
            stars = [star for star in (args.vararg, args.kwarg) if star is not None]
            count = len(args.posonlyargs) + len(args.args) + len(args.kwonlyargs) + len(stars)
            counts.append(None if node.decorator_list else count)
        elif isinstance(node, ast.Assign) and any(
            isinstance(at, ast.Name) and at.id == PARAMETERS for at in node.targets
        ):
            counts.append(ast.literal_eval(node.value).get(function))
    return counts[-1] if counts else None


def names_of(module: str, path: Sequence[str]) -> Names:
    """Returns the names that a module's text binds; a module without a text that Python understands may bind any."""
    found = find_module(module, path)
    source = source_of(found) if found is not None else None
    try:
        tree = ast.parse(source) if source is not None else None
    except (SyntaxError, ValueError):
        tree = None
    return _names(tree) if tree is not None else Names(frozenset(), (), (), is_dynamic=True)


def load_module(key: str, module: str, beside: Path | None) -> ModuleType:
    """Imports the module that a key of the configuration names; raises the errors of its import.

    Raises:
        ConfigError: a module of this name was imported from another place before.
    """
    loaded = importlib.import_module(module)
    found = find_module(module, search_path(beside))
    origin, file = (found.origin if found is not None else None), getattr(loaded, "__file__", None)
    if origin and file and os.path.realpath(origin) != os.path.realpath(file):
        raise ConfigError(
            f"{key}: this process has already imported {module} from {file}, but the module now lies in {origin}: "
            "rename the module, or start a new process"
        )
    return loaded


class UsersCode:
    """Around a call of the user's own code on the driver: makes its errors `ModelError`s, except sparktf's own.

    with UsersCode("prepare"):
        assets = prepare(rows, params)
    """

    def __init__(self, what: str) -> None:
        """Takes the name of the code, for messages."""
        self._what = what

    def __enter__(self) -> None:
        """Begins nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises `ModelError` with the error's traceback."""
        if isinstance(error, Exception) and not isinstance(error, SparkTFError):
            raise failed(self._what, error) from error


def failed(what: str, error: Exception) -> ModelError:
    """Returns the error for one that the user's code just raised on the driver; its record has the traceback."""
    found = ModelError(f"{what}: {typed_line_of_error(error)}")
    found.record = ErrorRecord(
        type="ModelError",
        message=str(found),
        verdict=Verdict.MODEL_FAILED,
        time_s=0.0,
        traceback=traceback.format_exc(),
    )
    return found


def _binds(module: str, name: str, path: Sequence[str], seen: frozenset[str]) -> bool | None:
    names = names_of(module, path)
    if name in names.bound:
        return True
    answers = [
        None if star.startswith(".") else _binds(star, name, path, seen | {module})
        for star in (_absolute(star, module, path) for star in names.stars)
        if star not in seen and star.partition(".")[0] not in _KNOWN
    ]
    if True in answers:
        return True
    return None if names.is_dynamic or None in answers else False


def _absolute(star: str, module: str, path: Sequence[str]) -> str:
    """Returns the absolute name of a module that another one imports; with its dots, where it leaves the package."""
    name = star.lstrip(".")
    level = len(star) - len(name)
    if not level:
        return star
    found = find_module(module, path)
    is_package = found is not None and found.submodule_search_locations is not None
    parts = module.split(".")
    package = parts[: len(parts) - level + is_package]
    return ".".join([*package, *([name] if name else [])]) if package else star


def _names(tree: ast.Module) -> Names:
    bound: set[str] = set()
    functions: list[str] = []
    stars: list[str] = []
    is_dynamic = False
    for node in _top_level(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
            if not isinstance(node, ast.ClassDef):
                functions.append(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
            if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                stars.append("." * node.level + (node.module or ""))
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                bound.add(node.id)
            is_dynamic |= node.id in _DYNAMIC
    return Names(frozenset(bound), tuple(functions), tuple(stars), is_dynamic or "__getattr__" in bound)


def _top_level(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes that run when the module is imported, except the bodies of classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield from _top_level(child)
