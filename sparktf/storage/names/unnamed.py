"""The files of a folder with names that have none in its object, staged or loose: what a listing finds of them.

- *Staged*: what is written aside, under a name that nobody reads but its writer, until a rename gives it its place.
  Each object has a key of its own, so that whoever is late, or writes the same name again, changes nothing of what was
  renamed: the rename takes the objects that are there, and leaves what comes later where it was.
- *Loose*: what one process rewrites for people and for signs of life alone, under its own name: logs, TensorBoard's
  summaries, bad rows, an owner's beat.
"""

from __future__ import annotations

import re
import secrets

from sparktf.storage.base import FileEntry
from sparktf.storage.names.tree import NamedFile, NamedFolder, NamedNode, NameParts, files_of, folder_of
from sparktf.storage.objects.object_storage import ObjectStorage

_STAGED = re.compile(r"^(_put-|_plan-|_new-|_staged-|_tmp$)")
_LOOSE_TOPS = ("logs", "tensorboard", "bad_rows")
_OWNER, _OF_OWNER = "owner", re.compile(r"^(beat|released|_now-.*)$")
_PROBE = ".probe-"
_KEY = re.compile(r"^(.*)~([0-9a-f]{64})?-([0-9a-f]{16})$", re.DOTALL)


def is_staged(parts: NameParts) -> bool:
    """Whether a path lies in a folder in which something is written aside, or is one."""
    return any(_STAGED.match(name) for name in parts)


def above_staged(parts: NameParts) -> NameParts:
    """Returns the folder in which the folder of a staged path is."""
    return parts[: next(place for place, name in enumerate(parts) if _STAGED.match(name))]


def is_loose(parts: NameParts) -> bool:
    """Whether a path is a loose file's, or that of a folder of loose files alone."""
    if not parts or is_staged(parts):
        return False
    if parts[0] in _LOOSE_TOPS or parts[-1].startswith(_PROBE):
        return True
    return parts[0] == _OWNER and _OF_OWNER.match(parts[-1]) is not None


def may_hold_others(parts: NameParts) -> bool:
    """Whether such files may lie below a folder that has a name itself: elsewhere nobody looks for them."""
    return may_list_others(parts) or parts[0] == _OWNER


def may_list_others(parts: NameParts) -> bool:
    """Whether a listing of a folder that has a name shows such files: not an owner's beat, for which each looks."""
    return parts in ((), ("checkpoints",))


def new_key(path: str, sha256: str = "") -> str:
    """Returns a key of its own for a file that is written at a path.

    Args:
        sha256: Of its content, if that is known.
    """
    return f"{path}~{sha256}-{secrets.token_hex(8)}"


def loose_at(store: ObjectStorage, folder: str, parts: NameParts) -> NamedFile | None:
    """Returns a loose file; None if there is none. Raises `StorageError`."""
    at = "/".join(parts)
    found = store.head(f"{folder}/{at}")
    return None if found is None else NamedFile(at, found.nbytes, found.modified_ms)


def files_beside(store: ObjectStorage, folder: str, parts: NameParts, root: NamedFolder) -> dict[NameParts, NamedFile]:
    """Returns the files at and below a path, by their paths below `folder`. Raises `StorageError`.

    Args:
        folder: Path of the folder with names.
        root: Its names: what a rename has taken is among them, and no longer here.
    """
    # A file's own object has another key than its path, so it is looked for in the folder above.
    listed = parts[:-1] if is_staged(parts[:-1]) else parts
    found: dict[NameParts, NamedFile] = {}
    taken: set[str] | None = None
    for entry in store.below("/".join((folder, *listed))):
        at = entry.path[len(folder) + 1 :]
        path, file = _read(at, entry)
        if path[: len(parts)] != parts:
            continue
        if is_staged(path):
            taken = {kept.at for kept in files_of(root)} if taken is None else taken
            if at in taken or path not in found or found[path].modified_ms <= file.modified_ms:
                found |= {path: file} if at not in taken else {}
        elif is_loose(path):
            found[path] = file
    return found


def named_node_of(files: dict[NameParts, NamedFile], parts: NameParts, now_ms: int) -> NamedNode | None:
    """Returns the files at and below a path as a file or folder; None if there are none."""
    return folder_of({path[len(parts) :]: file for path, file in files.items()}, now_ms)


def _read(at: str, entry: FileEntry) -> tuple[NameParts, NamedFile]:
    found = _KEY.match(at)
    name, sha256 = (found[1], found[2] or "") if found else (at, "")
    return tuple(name.split("/")), NamedFile(at, entry.nbytes, entry.modified_ms, sha256)
