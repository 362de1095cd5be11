"""The objects of a folder with names for readers that know the store alone, as TensorFlow Serving: by their paths.

The names say which files there are; `bring_in_line` copies them to where they would be found, and deletes what is there
no more. It can be done again at any time, by anybody, and does then what is missing. What is hidden is not shown.

A folder that comes has all its files before the one that makes it count; only then change the files that name it; what
has gone is deleted last, and the file that made it count first of all. Between two such calls nothing changes. A
process that was frozen within one may do a part of it late: the next call, with the next change, puts that right.
"""

from __future__ import annotations

from sparktf.storage.base import FileEntry, is_hidden
from sparktf.storage.names.tree import NamedFile, NamedFolder, NameParts, paths_of
from sparktf.storage.objects.object_storage import ObjectStorage


def bring_in_line(store: ObjectStorage, folder: str, root: NamedFolder, last: str) -> None:
    """Makes the objects below a folder be those of its names.

    Args:
        root: The names.
        last: See `Storage.show`.

    Raises:
        StorageError: the storage failed.
    """
    wanted = {path: file for path, file in paths_of(root) if not any(map(is_hidden, path))}
    there = {path: entry for path, entry in _there(store, folder).items() if not any(map(is_hidden, path))}
    missing = [path for path, file in wanted.items() if not _is_same(store, folder, file, there.get(path))]
    for path in sorted(missing, key=lambda path: (len(path) == 1, path[-1] == last, path)):
        store.copy_object(f"{folder}/{wanted[path].at}", f"{folder}/{'/'.join(path)}")
    gone = there.keys() - wanted.keys()
    store.delete_objects([there[path].path for path in gone if path[-1] == last])
    store.delete_objects([there[path].path for path in gone if path[-1] != last])


def _there(store: ObjectStorage, folder: str) -> dict[NameParts, FileEntry]:
    return {tuple(entry.path[len(folder) + 1 :].split("/")): entry for entry in store.below(folder)}


def _is_same(store: ObjectStorage, folder: str, file: NamedFile, there: FileEntry | None) -> bool:
    """Whether an object is a file's: a file in a folder never changes, and one beside it is small."""
    if there is None or there.nbytes != file.nbytes:
        return False
    if "/" in there.path[len(folder) + 1 :]:
        return True
    return store.read_bytes(there.path) == store.read_bytes(f"{folder}/{file.at}")
