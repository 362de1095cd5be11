"""A store of objects with the renames of a file system, in those folders whose names are kept in one object.

`keep_names` makes such a folder. A file in it is an object under a key of its own, written once; that it is there, and
under which path, says the folder's `Catalogue` alone. So a rename or a deletion, of a file or of a folder with all
below it, is one swap of names: it happens at once or not at all, refuses a name that is taken and a folder that is
missing, and comes too late if the names have changed. On this rest `Passage`, `Fence`, `FolderHead`, and all commits.

Elsewhere it is the store as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from sparktf.errors import StorageError, StorageExistsError, StorageNotFoundError, StorageUnavailableError
from sparktf.storage.base import FileEntry, OpenUpload, Storage, Tag, name_of, sha256_of
from sparktf.storage.local import storage_errors
from sparktf.storage.names import tree
from sparktf.storage.names.catalogue import NAMES, Catalogue
from sparktf.storage.names.conditions import check_conditions
from sparktf.storage.names.finder import Finder
from sparktf.storage.names.named_path import NamedPath, entry_of
from sparktf.storage.names.shown import bring_in_line
from sparktf.storage.names.tree import NamedFile, NamedFolder, NamedNode
from sparktf.storage.names.unnamed import (
    above_staged,
    files_beside,
    is_loose,
    is_staged,
    loose_at,
    may_hold_others,
    may_list_others,
    named_node_of,
    new_key,
)
from sparktf.storage.objects.object_storage import ObjectStorage

_OBJECTS = "_objects"
"""Folder of the objects of files that were not written aside first."""

_TRIES = 20

_MISSING = "No such file or directory"

FolderEntries = tuple[FileEntry, ...]
NamedFiles = list[NamedFile]

_T = TypeVar("_T")


class NamedStorage(Storage):
    """See the module. Paths are "<scheme>://<container>/x"."""

    renames = False

    def __init__(self, store: ObjectStorage, finder: Finder | None = None) -> None:
        """Connects to nothing yet."""
        self._store = store
        self._finder = finder or Finder()

    def patient(self, deadline_s: float) -> NamedStorage:
        """Returns the same storage with another deadline."""
        return NamedStorage(self._store.patient(deadline_s), self._finder)

    def keep_names(self, path: str) -> None:
        """See `Storage`."""
        path = path.rstrip("/")
        Catalogue(self._store, path, self._finder.memory(path)).begin()

    def show(self, folder: str, last: str) -> None:
        """See `Storage`."""
        spot = self._spot(folder)
        if spot is not None and not spot.parts and (root := self._root(spot)) is not None:
            bring_in_line(self._store, spot.folder, root, last)

    def write_if(self, path: str, content: bytes, inside: str) -> bool | None:
        """See `Storage`: one object, and one swap."""
        spot, guard = self._spot(path), self._spot(inside)
        if spot is None or guard is None or guard.folder != spot.folder or spot.has_no_name:
            return None
        at = new_key("/".join((_OBJECTS, *spot.parts)))
        self._store.write_bytes(spot.object(at), content)
        file = NamedFile(at, len(content), _now_ms())

        def put(root: NamedFolder) -> NamedFolder:
            if tree.find(root, guard.parts) is None:
                raise StorageNotFoundError(f"cannot write {path}: {inside} is gone")
            return tree.put_file(root, spot.parts, file, f"write {path}")

        try:
            self._give_name(spot, file, put)
        except StorageNotFoundError:
            return False
        return True

    def put_over(self, path: str, content: bytes, tag: Tag | None) -> Tag:
        """See `Storage`."""
        return self._store.put_tagged(path, content, tag)

    def tag_of(self, path: str) -> Tag | None:
        """See `Storage`."""
        return self._store.tag_of(path)

    def delete_if(self, folder: str, inside: str) -> bool | None:
        """See `Storage`."""
        spot, guard = self._spot(folder), self._spot(inside)
        if spot is None or spot.parts or guard is None or guard.folder != spot.folder:
            return None
        now_ms = _now_ms()
        below = [found.path for found in self._store.below(spot.folder)]

        def empty(root: NamedFolder) -> NamedFolder:
            if tree.find(root, guard.parts) is None:
                raise StorageNotFoundError(f"cannot delete {folder}: {inside} is gone")
            return tree.remove(root, (), now_ms)

        try:
            spot.names.change(empty, gone=True)
        except StorageNotFoundError:
            return False
        self._store.delete_objects(below)
        return True

    # ---- reading ----

    def stat(self, path: str) -> FileEntry:
        path = path.rstrip("/")
        if (spot := self._spot(path)) is None:
            return self._store.stat(path)
        node = self._node(spot)
        if node is None:
            raise StorageNotFoundError(f"cannot access {path}: {_MISSING}")
        return entry_of(path, node)

    def list(self, path: str) -> FolderEntries:
        path = path.rstrip("/")
        if (spot := self._spot(path)) is None:
            return tuple(entry for entry in self._store.list(path) if name_of(entry.path) != NAMES)
        root = self._root(spot)
        named = None if root is None else tree.find(root, spot.parts)
        others: NamedNode | None = None
        if spot.has_no_name or may_list_others(spot.parts):
            others = self._beside(spot, root)
        if isinstance(named, NamedFile) or isinstance(others, NamedFile):
            raise StorageNotFoundError(f"cannot list {path}: Not a directory")
        if named is None and others is None:
            raise StorageNotFoundError(f"cannot list {path}: {_MISSING}")
        entries = {**(others.entries if others else {}), **(named.entries if named else {})}
        if others is not None:
            entries |= {name: node for name, node in others.entries.items() if isinstance(node, NamedFile)}
        return tuple(sorted(entry_of(f"{path}/{name}", node) for name, node in entries.items()))

    def walk(self, path: str) -> Iterator[FileEntry]:
        """See `Storage`."""
        spot = self._spot(path)
        return self._store.walk(path) if spot is None or is_loose(spot.parts) else super().walk(path)

    def open(self, path: str) -> BinaryIO:
        return self._read(path, "open", self._store.open)

    def read_bytes(self, path: str) -> bytes:
        return self._read(path, "read", self._store.read_bytes)

    def download(self, path: str, local: Path) -> None:
        self._read(path, "copy", lambda at: self._store.download(at, local))

    def checksum(self, path: str) -> str:
        return self._read(path, "read", self._store.checksum)

    def fingerprints(self, folder: str) -> Mapping[str, tuple[int, str]] | None:
        """See `Storage`: of the files that have a checksum in their names, and whose objects a listing finds."""
        if (spot := self._spot(folder)) is None or spot.has_no_name:
            return None
        root = self._root(spot)
        node = None if root is None else tree.find(root, spot.parts)
        files = dict(tree.paths_of(node))
        above = {file.at.rpartition("/")[0] for file in files.values()}
        there = {found.path: found.nbytes for at in above for found in self._store.below(spot.object(at))}
        return {
            "/".join(path): (file.nbytes, file.sha256)
            for path, file in files.items()
            if there.get(spot.object(file.at)) == file.nbytes
        }

    # ---- writing ----

    def write_bytes(self, path: str, content: bytes) -> None:
        self._write(path, f"write {path}", lambda at: self._store.write_bytes(at, content), len(content), "")

    def upload(self, local: Path, path: str) -> None:
        with storage_errors("read", str(local)), open(local, "rb") as stream:
            sha256 = sha256_of(stream)
        self.upload_as(local, path, sha256)

    def upload_as(self, local: Path, path: str, sha256: str) -> None:
        """See `Storage`."""
        with storage_errors("read", str(local)):
            nbytes = local.stat().st_size
        self._write(path, f"copy {local} to {path}", lambda at: self._store.put_file(local, at), nbytes, sha256)

    def copy(self, source: str, target: str) -> str:
        """See `Storage`: within the store, where the checksum is known."""
        spot = self._spot(source)
        node = None if spot is None else self._node(spot)
        if spot is None or not isinstance(node, NamedFile) or not node.sha256:
            return super().copy(source, target)
        here, file = spot.object(node.at), node
        self._write(
            target, f"copy {source} to {target}", lambda at: self._store.copy_object(here, at), file.nbytes, file.sha256
        )
        return file.sha256

    def make_dirs(self, path: str) -> None:
        spot = self._spot(path)
        if spot is None:
            self._store.make_dirs(path)
        elif not spot.has_no_name:
            now_ms, what = _now_ms(), f"make the folder {path}"
            # What was there when this process last looked will do: whoever renames into it finds out if it has gone.
            spot.names.change(lambda root: tree.make_dirs(root, spot.parts, now_ms, what), trusts=True)

    def rename(self, source: str, target: str) -> None:
        self._move(source, target, tree.rename, tree.attach)

    def replace(self, source: str, target: str) -> None:
        here, there = self._spot(source), self._spot(target)
        if there is None or (here is not None and here.folder != there.folder):
            self._replace_outside(source, target)
        else:
            self._move(source, target, tree.replace, tree.attach_over)

    def delete(self, path: str) -> None:
        path = path.rstrip("/")
        if (spot := self._spot(path)) is None:
            self._store.delete(path)
            return
        if spot.has_no_name and spot.names.memory.forget_taken(spot.parts):
            return
        spot.names.settle()  # else a rename that was given up might come yet, and name what is deleted here
        gone: NamedFiles = []
        if spot.has_no_name or may_hold_others(spot.parts):
            gone += files_beside(self._store, spot.folder, spot.parts, self._root(spot) or NamedFolder()).values()
        if not spot.has_no_name:
            gone += self._remove(spot)
        self._store.delete_objects([spot.object(file.at) for file in gone])

    def uploads(self, folder: str) -> tuple[OpenUpload, ...]:
        return self._store.uploads(folder)

    def abort(self, uploads: Sequence[OpenUpload]) -> None:
        self._store.abort(uploads)

    def free_nbytes(self, path: str) -> int:
        self.stat(path)
        return self._store.free_nbytes(path)

    def probe(self, path: str) -> None:
        """See `Storage`. Refuses a store that does not keep the conditions of puts, on which all here rests."""
        self.make_dirs(path)
        self._store.probe(path)
        check_conditions(self._store, path.rstrip("/"))

    # ---- how ----

    def _spot(self, path: str) -> NamedPath | None:
        """Returns where a path is in a folder with names; None if it is in none."""
        path = path.rstrip("/")
        folder = self._finder.find(self._store, path)
        if folder is None:
            return None
        parts = tuple(filter(None, path[len(folder) + 1 :].split("/")))
        return NamedPath(Catalogue(self._store, folder, self._finder.memory(folder)), parts)

    def _root(self, spot: NamedPath) -> NamedFolder | None:
        """Returns the names that are there now; None if the folder is gone."""
        seen = spot.names.read()
        return None if seen is None or seen.gone else seen.root

    def _node(self, spot: NamedPath) -> NamedNode | None:
        """Returns the file or folder at a path; None if there is none."""
        if is_loose(spot.parts) and (file := loose_at(self._store, spot.folder, spot.parts)) is not None:
            return file
        root = self._root(spot)
        if spot.has_no_name and (node := self._beside(spot, root)) is not None:
            return node
        return None if root is None else tree.find(root, spot.parts)

    def _beside(self, spot: NamedPath, root: NamedFolder | None) -> NamedNode | None:
        return named_node_of(files_beside(self._store, spot.folder, spot.parts, root or NamedFolder()), spot.parts, 0)

    def _object(self, path: str, doing: str) -> str:
        """Returns the path of a file's object."""
        if (spot := self._spot(path)) is None:
            return path
        node = self._node(spot)
        if node is None:
            raise StorageNotFoundError(f"cannot {doing} {path}: {_MISSING}")
        if isinstance(node, NamedFolder):
            raise StorageError(f"cannot {doing} {path}: Is a directory")
        return spot.object(node.at)

    def _read(self, path: str, doing: str, read: Callable[[str], _T]) -> _T:
        at = self._seen_object(path) or self._object(path, doing)
        while True:
            try:
                return read(at)
            except StorageNotFoundError:
                # What has another name by now, or was replaced, has no object any more under the old one.
                before, at = at, self._object(path, doing)
                if at == before:
                    raise

    def _seen_object(self, path: str) -> str | None:
        """Returns the path of a file's object, if this process has looked at the names within the last second."""
        spot = self._spot(path)
        root = None if spot is None or spot.has_no_name else spot.names.memory.recent()
        node = None if spot is None or root is None else tree.find(root, spot.parts)
        return spot.object(node.at) if spot is not None and isinstance(node, NamedFile) else None

    def _write(self, path: str, what: str, put: Callable[[str], None], nbytes: int, sha256: str) -> None:
        """Writes a file's object, and gives it its name if it has one."""
        spot = self._spot(path)
        if spot is None or is_loose(spot.parts):
            put(path)
            return
        staged = is_staged(spot.parts)
        at = new_key("/".join(spot.parts if staged else (_OBJECTS, *spot.parts)), sha256)
        put(spot.object(at))
        file = NamedFile(at, nbytes, _now_ms(), sha256)
        if staged:
            spot.names.memory.wrote(spot.parts, file)
            return
        self._give_name(spot, file, lambda root: tree.put_file(root, spot.parts, file, what))

    def _give_name(self, spot: NamedPath, file: NamedFile, change: Callable[[NamedFolder], NamedFolder]) -> None:
        """Makes a change that gives a file's object its name; deletes the one that had the name, or this if refused."""
        try:
            before = spot.names.change(change)
        except StorageNotFoundError:
            self._discard(spot, file)
            raise
        self._discard(spot, tree.find(before, spot.parts))

    def _discard(self, spot: NamedPath, file: NamedNode | None) -> None:
        """Deletes the object of a file that was replaced or refused."""
        if isinstance(file, NamedFile) and not spot.names.memory.has(file):
            self._store.delete_objects([spot.object(file.at)])

    def _move(self, source: str, target: str, move: tree.NameMove, attach: tree.NameAttach) -> None:
        what, now_ms = f"rename {source} to {target}", _now_ms()
        here, there = self._spot(source), self._spot(target)
        if here is None or there is None or here.folder != there.folder:
            self.stat(source)  # for its error
            raise StorageError(f"cannot {what}: they are not in one folder with names")
        if not is_staged(here.parts):
            before = here.names.change(lambda root: move(root, here.parts, there.parts, now_ms, what))
        else:
            written = here.names.memory.written(here.parts)
            files = None if written is None else {here.parts: written}

            def take(root: NamedFolder) -> NamedFolder:
                found = files_beside(self._store, here.folder, here.parts, root) if files is None else files
                node = named_node_of(found, here.parts, now_ms)
                if node is None or any(file.at in {kept.at for kept in tree.files_of(root)} for file in found.values()):
                    raise StorageNotFoundError(f"cannot {what}: {_MISSING}")
                root = tree.make_dirs(root, above_staged(here.parts), now_ms, what)  # writing there has made it
                return attach(root, there.parts, node, now_ms, what)

            before = here.names.change(take)
            here.names.memory.took(here.parts)
        self._discard(there, tree.find(before, there.parts))

    def _replace_outside(self, source: str, target: str) -> None:
        """Replaces a file that has no name by one that has: unless that is gone, or another one was put meanwhile."""
        for _ in range(_TRIES):
            tag = self._store.tag_of(target)
            content = self._store.read_bytes(self._object(source, "rename"))  # whether it is there now
            try:
                self._store.put_tagged(target, content, tag)
            except StorageExistsError:  # by another process, or by this put itself, which was sent twice
                continue
            self.delete(source)
            return
        raise StorageUnavailableError(f"cannot rename {source} to {target}: others replace it again and again")

    def _remove(self, spot: NamedPath) -> NamedFiles:
        """Takes a name away; returns the files that nobody finds any more."""
        now_ms = _now_ms()
        try:
            before = spot.names.change(lambda root: tree.remove(root, spot.parts, now_ms), gone=not spot.parts)
        except StorageNotFoundError:
            return []
        return list(tree.files_of(tree.find(before, spot.parts)))


def _now_ms() -> int:
    return int(time.time() * 1000)
