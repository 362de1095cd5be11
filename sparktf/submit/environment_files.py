"""The files of a virtual environment that go into its archive, and their names there."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sparktf.errors import ConfigError

# Paths below site-packages that no node needs: installers, C++ headers, and Spark's jars, which YARN brings itself.
_LEFT_OUT = ("pip", "tensorflow/include", "pyspark/jars", "pyspark/examples")
_TESTED = ("numpy", "pandas", "pyarrow", "scipy", "sklearn")
_LEFT_OUT_NAMES = re.compile(r"^(pip-.*\.dist-info|direct_url\.json|.*\.egg-link|__editable__.*)$")

_SHEBANG = re.compile(rb"^#!(?P<python>/[^\n]*/python[^\n]*)\n|^#!/bin/sh\n'''exec' [^\n]*\n' '''\n")
_TRAMPOLINE = b"#!/bin/sh\n'''exec' \"$(dirname \"$0\")/python\" \"$0\" \"$@\"\n' '''\n"


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """A member of the archive: a file to copy, a text, or a link."""

    name: str  # Path in the archive
    source: Path | None = None  # File to copy
    content: bytes | None = None  # Text to write instead
    link: str | None = None  # Target of a symbolic link
    executable: bool = False
    bytecode: bool = False  # Whether Python reads it in place of a source file, whose time it contains


def check_packable(prefix: Path) -> None:
    """Refuses an environment that cannot be moved. Raises `ConfigError` with the alternative."""
    if (prefix / "conda-meta").is_dir():
        raise ConfigError(
            f"{prefix} is a conda environment: pack it with conda-pack, and name the file in submit.archive"
        )
    if not (prefix / "pyvenv.cfg").is_file():
        raise ConfigError(f"{prefix} is no virtual environment: run sparktf pack with the python of one")


def base_python(prefix: Path) -> Path:
    """Returns the base interpreter of the environment; nodes need it at the same path."""
    return (prefix / "bin/python").resolve()


def environment_entries(prefix: Path, extra: dict[str, Path]) -> list[ArchiveMember]:
    """Returns the archive's members by name, with `extra` modules (name -> file or folder) that are not installed."""
    site = site_packages(prefix)
    members = {entry.name: entry for entry in _walk(prefix, prefix, "")}
    inside = site.relative_to(prefix).as_posix()
    for pth in sorted(site.glob("*.pth")):
        kept, modules = _read_pth(pth, prefix)
        extra = {**modules, **extra}
        members.pop(f"{inside}/{pth.name}", None)
        if kept:
            members[f"{inside}/{pth.name}"] = ArchiveMember(
                f"{inside}/{pth.name}", content="\n".join((*kept, "")).encode()
            )
    for module, path in sorted(extra.items()):
        suffix = ".py" if path.is_file() else ""
        name = f"{inside}/{module.replace('.', '/')}{suffix}"
        found = [ArchiveMember(name, source=path)] if path.is_file() else _walk(path, path, f"{name}/")
        members.update({entry.name: entry for entry in found})
    return [members[name] for name in sorted(members)]


def site_packages(prefix: Path) -> Path:
    """Returns the folder of an environment's packages. Raises `ConfigError` if there is none."""
    found = sorted(prefix.glob("lib/python3*/site-packages"))
    if not found:
        raise ConfigError(f"{prefix} has no lib/python3.*/site-packages: name the folder of a virtual environment")
    return found[0]


def _walk(folder: Path, prefix: Path, below: str) -> Iterator[ArchiveMember]:
    """Yields the files of a folder, named relative to `prefix` and `below`."""
    for item in sorted(folder.iterdir()):
        relative = item.relative_to(prefix).as_posix()
        if _is_left_out(relative):
            continue
        if item.is_symlink() and (link := _link(item, prefix)):
            yield ArchiveMember(below + relative, link=link)
        elif item.is_dir():
            yield from _walk(item, prefix, below)
        elif item.suffix == ".pyc":
            if _is_current(item):
                yield ArchiveMember(below + relative, source=item, bytecode=True)
        elif item.is_file():
            yield _file(below + relative, relative, item)


def _is_left_out(relative: str) -> bool:
    name = relative.rpartition("/")[2]
    package = relative.partition("site-packages/")[2]
    if _LEFT_OUT_NAMES.match(name) or relative.startswith("bin/activate") or package in _LEFT_OUT:
        return True
    return name == "tests" and package.partition("/")[0] in _TESTED


def _is_current(bytecode: Path) -> bool:
    """Returns whether this Python would use the bytecode, whose source has not changed since it was compiled."""
    if not bytecode.name.endswith(f".{sys.implementation.cache_tag}.pyc"):
        return False
    try:
        source = os.stat(importlib.util.source_from_cache(bytecode))
        with bytecode.open("rb") as file:
            header = file.read(16)
    except (OSError, ValueError):
        return False
    checked_by_time = 0
    written = struct.pack("<III", checked_by_time, int(source.st_mtime) & 0xFFFFFFFF, source.st_size & 0xFFFFFFFF)
    return header == importlib.util.MAGIC_NUMBER + written


def _link(item: Path, prefix: Path) -> str | None:
    """Returns the target of a link within the archive; None to copy the file that it points to."""
    target = os.readlink(item)
    if not os.path.isabs(target):
        return target if _is_below(item.parent / target, prefix) else None
    if _is_below(Path(target), prefix):
        return os.path.relpath(target, item.parent)
    return target if item.parent.name == "bin" and item.name.startswith("python") else None


def _is_below(path: Path, folder: Path) -> bool:
    return Path(os.path.normpath(path)).is_relative_to(folder)


def _file(name: str, relative: str, path: Path) -> ArchiveMember:
    executable = os.access(path, os.X_OK)
    if relative == "pyvenv.cfg":  # the command that made it names this machine's folders
        lines = path.read_bytes().splitlines(keepends=True)
        return ArchiveMember(name, content=b"".join(line for line in lines if not line.startswith(b"command")))
    if relative.startswith("bin/"):
        text = path.read_bytes()
        if text.startswith(b"#!") and _SHEBANG.match(text):
            return ArchiveMember(name, content=_SHEBANG.sub(_trampoline, text, count=1), executable=True)
    return ArchiveMember(name, source=path, executable=executable)


def _trampoline(found: re.Match[bytes]) -> bytes:
    return _TRAMPOLINE


def _read_pth(path: Path, prefix: Path) -> tuple[list[str], dict[str, Path]]:
    """Returns the lines of a .pth file that stay, and the modules that the others made importable."""
    kept: list[str] = []
    modules: dict[str, Path] = {}
    for line in filter(None, map(str.strip, path.read_text(encoding="utf-8").splitlines())):
        finder = re.match(r"import (__editable__\w+_finder)\b", line)
        folder = path.parent / line
        if finder:
            modules.update(_finder_mapping(path.parent / f"{finder.group(1)}.py"))
        elif line.startswith(("import ", "import\t", "#")) or not folder.is_dir():
            kept.append(line)
        elif _is_below(folder, prefix):
            kept.append(os.path.relpath(folder, path.parent))
        else:
            modules.update(_modules_in(folder))
    return kept, modules


def _finder_mapping(finder: Path) -> dict[str, Path]:
    """Returns module -> path of an editable installation, from the finder that setuptools writes.

    Raises:
        ConfigError: the finder has another form.
    """
    tree = ast.parse(finder.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name) and target.id == "MAPPING":
                mapping: dict[str, str] = ast.literal_eval(node.value)
                return {name: _module_path(Path(path)) for name, path in mapping.items()}
    raise ConfigError(f"{finder.name} is an editable installation that cannot be packed: install it without --editable")


def _module_path(path: Path) -> Path:
    return path if path.is_dir() else path.with_suffix(".py")


def _modules_in(folder: Path) -> dict[str, Path]:
    """Returns the packages and modules of a source folder."""
    packages = {item.name: item for item in folder.iterdir() if (item / "__init__.py").is_file()}
    return packages | {item.stem: item for item in folder.glob("*.py") if item.name not in ("setup.py", "conftest.py")}
