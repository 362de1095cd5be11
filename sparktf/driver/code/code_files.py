"""The part of the user's code that travels to other machines: modules, their imports beside them, and data files."""

from __future__ import annotations

import ast
import stat
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from sparktf.config.job import JobConfig
from sparktf.driver.code.module import search_path
from sparktf.errors import ConfigError
from sparktf.process.module_search import find_module

LIMIT_NBYTES = 128 << 20
"""Every node gets a copy, and so code is no way for data to travel."""

_INSTALLED = {"site-packages", "dist-packages"}
_STAY = sys.stdlib_module_names | {"sparktf"}
"""Modules that are never sent along with their importers."""

Files = Mapping[str, Path]
"""Path below the folder that is imported from -> where the file lies."""


def code_files(modules: Mapping[str, str], path: Sequence[str]) -> Files:
    """Returns the files that the user's modules need elsewhere; empty where nothing has to travel.

    Of a package all files, including data. Of a module in no package its file, and files beside it that it names. Of
    either the imported modules beside it. Installed packages and the contents of zips are there already.

    Args:
        modules: Key of the configuration -> module.
        path: The search path of modules.

    Raises:
        ConfigError: they are larger than `LIMIT_NBYTES`.
    """
    code = _Code()
    for key, module in modules.items():
        base = _base(module, path)
        if base is not None:
            code.collect(key, module.partition(".")[0], base)
    return code.files


def package_files(package: str, path: Sequence[str]) -> Files:
    """Returns all files of a package that needs nothing beside it; empty where it need not travel."""
    base = _base(package, path)
    return {} if base is None else {file.relative_to(base).as_posix(): file for file in _unit(base, package)}


def code_digest(config: JobConfig) -> str:
    """Returns a short digest of the files that travel for a configuration; "" where none has to.

    Raises:
        ConfigError: see `code_files`.
    """
    files = code_files(config.modules, search_path(config.code_folder))
    return digest_of(files) if files else ""


def write_files(files: Files, folder: Path) -> None:
    """Copies files into a folder that modules can be imported from."""
    for name, file in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())


def digest_of(files: Files) -> str:
    """Returns a short digest of the files."""
    digest = sha256()
    for name, file in sorted(files.items()):
        content = file.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def archive_files(files: Files, archive: Path) -> Path:
    """Writes a zip of the files; returns its path.

    No other user can read it or the files unpacked from it: functions may have taken along the values that they use,
    and Spark keeps both where all users of a host may look.
    """
    archive.touch(mode=0o600)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as zipped:
        for name, file in files.items():
            entry = zipfile.ZipInfo.from_file(file, name, strict_timestamps=False)
            entry.external_attr = (file.stat().st_mode & ~(stat.S_IRWXG | stat.S_IRWXO)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            zipped.writestr(entry, file.read_bytes())
    return archive


def _base(module: str, path: Sequence[str]) -> Path | None:
    """Returns the folder that a module is imported from; None where it need not travel or cannot."""
    found = find_module(module, path)
    if found is None or found.origin is None or not found.origin.endswith(".py"):
        return None
    source = Path(found.origin).absolute()
    if not source.is_file() or _INSTALLED.intersection(source.parts):
        return None
    unit = source.parent if source.name == "__init__.py" else source
    return unit.parents[module.count(".")]


class _Code:
    """Files as they are collected."""

    def __init__(self) -> None:
        self.files: dict[str, Path] = {}
        self._sizes: dict[Path, int] = {}
        self._nbytes = 0

    def collect(self, key: str, top: str, base: Path) -> None:
        """Adds a top-level module or package, and the files that it needs from its folder."""
        waiting, seen = [top], {top}
        while waiting:
            unit = [self._add(key, file, base) for file in _unit(base, waiting.pop())]
            for source in (file for file in unit if file.suffix == ".py"):
                tree = _parsed(source)
                beside = {module.partition(".")[0] for module in _imports(tree) if _lies_in(base, module)}
                waiting += sorted(beside - seen - _STAY)
                seen |= beside
                if source.parent == base:  # a package has its data in itself
                    for file in _named(base, _words(tree)):
                        self._add(key, file, base)

    def _add(self, key: str, file: Path, base: Path) -> Path:
        self.files.setdefault(file.relative_to(base).as_posix(), file)
        if file not in self._sizes:
            self._sizes[file] = file.stat().st_size
            self._nbytes += self._sizes[file]
        if self._nbytes > LIMIT_NBYTES:
            largest = max(self._sizes, key=lambda other: self._sizes[other])
            raise ConfigError(
                f"{key}: the code in {base} is larger than the {LIMIT_NBYTES >> 20} MiB that can be sent to every "
                f"node; the largest file is {largest}, {self._sizes[largest] / 1e6:,.0f} MB: move files that are not "
                "code to storage that every node can read"
            )
        return file


def _unit(base: Path, top: str) -> Iterator[Path]:
    """Yields the files of a top-level module or package; of two of one name, Python's choice."""
    package, module = base / top, base / f"{top}.py"
    if (package / "__init__.py").is_file() or not module.is_file():
        yield from (file for file in _walk(package) if file.suffix != ".pyc")
    else:
        yield module


def _walk(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        if entry.is_dir():
            yield from _walk(entry)
        elif entry.is_file():
            yield entry


def _parsed(source: Path) -> ast.Module:
    try:
        return ast.parse(source.read_bytes())
    except (SyntaxError, ValueError):  # a trainer reports that in more detail
        return ast.Module([], [])


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yields the absolute names of imports, in functions too; both `a` and `a.b` of `from a import b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _lies_in(base: Path, module: str) -> bool:
    """Whether a module's file is in a folder. A folder of that name without Python code does not count."""
    parts = module.split(".")
    if (base / parts[0] / "__init__.py").is_file() or (base / f"{parts[0]}.py").is_file():
        return True
    below = base.joinpath(*parts)
    return len(parts) > 1 and (below.with_suffix(".py").is_file() or (below / "__init__.py").is_file())


def _words(tree: ast.Module) -> frozenset[str]:
    """Returns the parts of all strings in a module that may be paths: "data/vocab.txt" gives "data", "vocab.txt"."""
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return frozenset(part for text in texts if "\n" not in text for part in text.split("/") if part.strip("."))


def _named(folder: Path, words: frozenset[str]) -> Iterator[Path]:
    """Yields the files in a folder, and in folders in it, whose names are all among `words`."""
    for word in sorted(words):
        entry = folder / word
        if word.startswith(".") or "\0" in word or len(word) > 255:
            continue
        if entry.is_file():
            yield entry
        elif entry.is_dir():
            yield from _named(entry, words)
