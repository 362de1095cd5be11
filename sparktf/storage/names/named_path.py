"""A path in a folder with names."""

from __future__ import annotations

from typing import NamedTuple

from sparktf.storage.base import FileEntry
from sparktf.storage.names.catalogue import Catalogue
from sparktf.storage.names.tree import NamedFile, NamedNode, NameParts
from sparktf.storage.names.unnamed import is_loose, is_staged


class NamedPath(NamedTuple):
    """A path in a folder with names."""

    names: Catalogue
    parts: NameParts

    @property
    def folder(self) -> str:
        return self.names.folder

    @property
    def has_no_name(self) -> bool:
        return is_staged(self.parts) or is_loose(self.parts)

    def object(self, at: str) -> str:
        """Returns the path of an object."""
        return f"{self.folder}/{at}"


def entry_of(path: str, node: NamedNode) -> FileEntry:
    """Returns a file or folder as a listing shows it."""
    if isinstance(node, NamedFile):
        return FileEntry(path, node.nbytes, is_dir=False, modified_ms=node.modified_ms)
    return FileEntry(path, 0, is_dir=True, modified_ms=node.modified_ms)
