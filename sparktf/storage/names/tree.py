"""The names of a folder in a store of objects, as a value: which files and folders there are, and where objects lie.

A change returns a new tree, or raises the error of a file system; what did not change is shared. So a change can be
made again on whatever tree is the newest by then.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sparktf.errors import StorageError, StorageExistsError, StorageNotFoundError

NameParts = tuple[str, ...]
"""A path below the folder; () for the folder itself."""


class NamedFile(NamedTuple):
    """A file."""

    at: str  # Its object's key, below the folder; no two files are ever at the same one
    nbytes: int
    modified_ms: int
    sha256: str = ""  # "" if unknown


class NamedFolder(NamedTuple):
    """A folder."""

    entries: Mapping[str, NamedFolder | NamedFile] = {}
    modified_ms: int = 0


NamedNode = NamedFolder | NamedFile

NameMove = Callable[[NamedFolder, NameParts, NameParts, int, str], NamedFolder]
"""As `rename` and `replace`."""

NameAttach = Callable[[NamedFolder, NameParts, NamedNode, int, str], NamedFolder]
"""As `attach` and `attach_over`."""

_PLAIN_NBYTES = 32 << 10
"""What is longer is stored compressed: a night's events are thousands of names."""

_MISSING = "No such file or directory"


def find(root: NamedFolder, parts: NameParts) -> NamedNode | None:
    """Returns the file or folder at a path; None if there is none."""
    found: NamedNode = root
    for name in parts:
        if not isinstance(found, NamedFolder) or name not in found.entries:
            return None
        found = found.entries[name]
    return found


def put_file(root: NamedFolder, parts: NameParts, file: NamedFile, what: str) -> NamedFolder:
    """Puts a file, replacing one that is there; makes the folders above it.

    Args:
        what: For the error, as "write s3a://bucket/x".
    """
    if not parts or isinstance(find(root, parts), NamedFolder):
        raise StorageError(f"cannot {what}: Is a directory")
    return _put(root, parts, file, file.modified_ms, what)


def make_dirs(root: NamedFolder, parts: NameParts, now_ms: int, what: str) -> NamedFolder:
    """Makes a folder and those above it, unless they exist."""
    for end in range(1, len(parts) + 1):
        if isinstance(find(root, parts[:end]), NamedFile):
            raise StorageExistsError(f"cannot {what}: File exists")
    return root if find(root, parts) is not None else _put(root, parts, NamedFolder({}, now_ms), now_ms, what)


def attach(root: NamedFolder, parts: NameParts, node: NamedNode, now_ms: int, what: str) -> NamedFolder:
    """Puts a file or folder where nothing is, into a folder that exists."""
    if find(root, parts) is not None:
        raise StorageExistsError(f"cannot {what}: File exists")
    if not isinstance(find(root, parts[:-1]), NamedFolder):
        raise StorageNotFoundError(f"cannot {what}: {_MISSING}")
    return _put(root, parts, node, now_ms, what)


def attach_over(root: NamedFolder, parts: NameParts, node: NamedNode, now_ms: int, what: str) -> NamedFolder:
    """Puts a file where nothing or a file is, into a folder that exists."""
    if isinstance(find(root, parts), NamedFolder):
        raise StorageExistsError(f"cannot {what}: Is a directory")
    if not isinstance(node, NamedFile) or not isinstance(find(root, parts[:-1]), NamedFolder):
        raise StorageNotFoundError(f"cannot {what}: {_MISSING}")
    return _put(root, parts, node, now_ms, what)


def rename(root: NamedFolder, source: NameParts, target: NameParts, now_ms: int, what: str) -> NamedFolder:
    """Renames a file or folder to where nothing is."""
    node = _of(root, source, what)
    if target[: len(source)] == source and find(root, target) is None:
        raise StorageNotFoundError(f"cannot {what}: it would be inside itself")
    attach(root, target, node, now_ms, what)  # for its errors: the target may be there, as the source itself
    return attach(remove(root, source, now_ms), target, node, now_ms, what)


def replace(root: NamedFolder, source: NameParts, target: NameParts, now_ms: int, what: str) -> NamedFolder:
    """Renames a file, replacing one that is there."""
    node = _of(root, source, what)
    if source == target:
        return root
    attach_over(root, target, node, now_ms, what)
    return attach_over(remove(root, source, now_ms), target, node, now_ms, what)


def remove(root: NamedFolder, parts: NameParts, now_ms: int) -> NamedFolder:
    """Removes a file or folder; returns the same tree if nothing is there."""
    if not parts:
        return NamedFolder({}, now_ms) if root.entries else root
    first, rest = parts[0], parts[1:]
    below = root.entries.get(first)
    if below is None or (rest and not isinstance(below, NamedFolder)):
        return root
    if not rest:
        return NamedFolder({name: node for name, node in root.entries.items() if name != first}, now_ms)
    assert isinstance(below, NamedFolder)
    changed = remove(below, rest, now_ms)
    return root if changed is below else NamedFolder({**root.entries, first: changed}, root.modified_ms)


def files_of(node: NamedNode | None) -> Iterator[NamedFile]:
    """Yields all files of a tree."""
    return (file for _, file in paths_of(node))


def paths_of(node: NamedNode | None, above: NameParts = ()) -> Iterator[tuple[NameParts, NamedFile]]:
    """Yields all files of a tree, with their paths below it."""
    if isinstance(node, NamedFile):
        yield above, node
    elif node is not None:
        for name, below in node.entries.items():
            yield from paths_of(below, (*above, name))


def folder_of(files: Mapping[NameParts, NamedFile], now_ms: int) -> NamedNode | None:
    """Returns the tree of some files by their paths below it; a file itself if that is the only one, at ()."""
    if not files:
        return None
    if () in files:
        return files[()]
    root = NamedFolder({}, now_ms)
    for parts, file in files.items():
        root = _put(root, parts, file, now_ms, "rename")
    return root


def content_of(root: NamedFolder, swaps: Sequence[str], *, gone: bool) -> bytes:
    """Returns a tree as it is stored, with the swaps that led to it, the last one first."""
    stored = {"gone": gone, "swaps": list(swaps), "names": _plain(root)}
    content = json.dumps(stored, separators=(",", ":"), ensure_ascii=False).encode()
    return content if len(content) <= _PLAIN_NBYTES else zlib.compress(content, level=1)


def read_content(content: bytes) -> tuple[NamedFolder, tuple[str, ...], bool]:
    """Returns a stored tree, its last swaps, and whether it is gone. Raises `ValueError` if it is none."""
    try:
        stored = json.loads(content if content.startswith(b"{") else zlib.decompress(content))
        return _parsed(stored["names"]), tuple(stored["swaps"]), bool(stored["gone"])
    except (ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
        raise ValueError(f"no names of a folder: {error}") from error


def _put(root: NamedFolder, parts: NameParts, node: NamedNode, now_ms: int, what: str) -> NamedFolder:
    first, rest = parts[0], parts[1:]
    below: NamedNode = node
    if rest:
        there = root.entries.get(first, NamedFolder({}, now_ms))
        if not isinstance(there, NamedFolder):
            raise StorageNotFoundError(f"cannot {what}: Not a directory")
        below = _put(there, rest, node, now_ms, what)
    came = first not in root.entries or not rest
    return NamedFolder({**root.entries, first: below}, now_ms if came else root.modified_ms)


def _of(root: NamedFolder, parts: NameParts, what: str) -> NamedNode:
    node = find(root, parts) if parts else None
    if node is None:
        raise StorageNotFoundError(f"cannot {what}: {_MISSING}")
    return node


def _plain(node: NamedNode) -> Any:
    if isinstance(node, NamedFile):
        return list(node)
    return {"modified_ms": node.modified_ms, "entries": {name: _plain(below) for name, below in node.entries.items()}}


def _parsed(stored: Any) -> Any:
    if isinstance(stored, list):
        return NamedFile(*stored)
    entries = {name: _parsed(below) for name, below in stored["entries"].items()}
    return NamedFolder(entries, stored["modified_ms"])
