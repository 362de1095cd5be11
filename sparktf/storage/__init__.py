"""File systems and the commit protocol; `open_storage` is how the rest of sparktf comes by a `Storage`."""

from __future__ import annotations

import re
from collections.abc import Callable

from sparktf.errors import ConfigError
from sparktf.storage.base import FileEntry, Storage
from sparktf.storage.local import LocalStorage, local_path

__all__ = ["FileEntry", "Storage", "normalise", "open_storage"]

# "file:/x" is how Hadoop prints a local path. Any other scheme needs "://": "day:1/part" is a relative path.
_SCHEME = re.compile(r"^(file(?=:)|[a-z][a-z0-9+.-]*(?=://))", re.IGNORECASE)

_OPEN: dict[str, Callable[[str], Storage]] = {"file": lambda path: LocalStorage()}


def open_storage(path: str) -> Storage:
    """Returns the storage that a path belongs to, by the scheme of its URL.

    Raises:
        ConfigError: there is no storage for the scheme.
    """
    scheme = _scheme(path)
    if scheme not in _OPEN:
        supported = ", ".join(f"{name}://" for name in sorted(_OPEN))
        raise ConfigError(f"no storage for {scheme}:// ({path}); supported: {supported} and paths without a scheme")
    return _OPEN[scheme](path)


def normalise(path: str) -> str:
    """Returns the one spelling of a path that every process understands, without a slash at its end.

    A local path becomes absolute, against this process's working directory, and loses its `file:`; a URL of another
    scheme stays as it is. Characters are taken as they are: nothing is percent-decoded, as in Hadoop.

    Raises:
        ConfigError: the path is empty.
    """
    if not path.strip():
        raise ConfigError("a path is empty")
    return local_path(path) if _scheme(path) == "file" else path.rstrip("/")


def _scheme(path: str) -> str:
    found = _SCHEME.match(path)
    return found.group(1).lower() if found else "file"
