"""Finds the storage of a path: the rest of sparktf gets its `Storage` from `FileSystems`."""

from __future__ import annotations

import posixpath
import re
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sparktf.errors import ConfigError
from sparktf.hadoop import HDFS_SCHEMES, OBJECT_SCHEMES, VIEWFS, HadoopConf
from sparktf.storage.base import Storage, Timeouts
from sparktf.storage.credentials import Credentials, credentials_here
from sparktf.storage.local import LocalStorage, local_path
from sparktf.storage.mounts import check_not_mounted, home_of, mounted
from sparktf.storage.store_keys import StoreKeys, keys_here, only_hadoops

if TYPE_CHECKING:
    from sparktf.storage.hdfs.hdfs import HdfsStorage
    from sparktf.storage.names.named_storage import NamedStorage
    from sparktf.storage.objects.object_storage import ObjectStorage

# Hadoop prints a local path as "file:/x". Any other scheme needs "://": "day:1/part" is a relative path.
# Below it, HDFS shows encrypted files as they lie on disk.
_RAW = "/.reserved/raw"
_SCHEME = re.compile(r"^(file(?=:)|[a-z][a-z0-9+.-]*(?=://))", re.IGNORECASE)

_SUPPORTED = ("file", *HDFS_SCHEMES, *OBJECT_SCHEMES)


class FileSystems:
    """The file systems of a Hadoop configuration, one storage for each cluster or container; thread-safe."""

    def __init__(
        self,
        hadoop: HadoopConf | None = None,
        credentials: Credentials | None = None,
        timeouts: Timeouts | None = None,
        keys: StoreKeys | None = None,
    ) -> None:
        """Connects to nothing yet; by default paths without a scheme are local, and credentials are the process's.

        Args:
            keys: The secrets of object stores. Default: those that this process was handed.
        """
        self.hadoop = hadoop or HadoopConf()
        self.credentials = credentials or credentials_here(self.hadoop.auth_to_local)
        self.keys = keys or keys_here()
        self._timeouts = timeouts or Timeouts()
        self._lock = threading.Lock()
        self._clusters: dict[str, HdfsStorage | ObjectStorage] = {}
        self._named: dict[str, NamedStorage] = {}

    def open(self, path: str, *, deadline_s: float | None = None) -> Storage:
        """Returns the storage of a path.

        Args:
            deadline_s: A shorter time limit for repeated tries than usual, for files not worth waiting for.

        Raises:
            ConfigError: no storage supports the path.
        """
        path = self.normalise(path)
        scheme = _scheme(path)
        if scheme == "file":
            # If a path without a scheme is not local, local entries need one.
            return LocalStorage("" if self._is_local else "file://")
        if scheme not in _SUPPORTED:
            supported = ", ".join(f"{name}://" for name in _SUPPORTED)
            raise ConfigError(f"{path}: {scheme}:// is not supported: use {supported} or a path without a scheme")
        storage = self._cluster(scheme, _authority(path))
        return storage if deadline_s is None else storage.patient(deadline_s)

    def only_hadoops(self, path: str) -> str:
        """Returns why Hadoop's own clients alone can read a path, for a sentence's end; "" if `open` can, too."""
        path = self.normalise(path)
        scheme = _scheme(path)
        if scheme not in _SUPPORTED:
            return f"there is no client for {scheme}://"
        return only_hadoops(self.hadoop.properties, scheme, _authority(path)) if scheme in OBJECT_SCHEMES else ""

    def open_runs(self, path: str, *, deadline_s: float | None = None) -> Storage:
        """Returns the storage of a path that may be in a run or among published models, whose folders are renamed.

        In a store of objects their names are kept beside them (`storage/names`). Elsewhere the same as `open`.

        Args:
            deadline_s: See `open`.

        Raises:
            ConfigError: no storage supports the path.
        """
        path = self.normalise(path)
        if _scheme(path) not in OBJECT_SCHEMES:
            return self.open(path, deadline_s=deadline_s)
        # Imported late, as the store itself.
        from sparktf.storage.names.named_storage import NamedStorage  # noqa: PLC0415
        from sparktf.storage.objects.object_storage import ObjectStorage  # noqa: PLC0415

        store = self._cluster(_scheme(path), _authority(path))
        assert isinstance(store, ObjectStorage)
        with self._lock:
            storage = self._named.setdefault(store.root, NamedStorage(store))
        return storage if deadline_s is None else storage.patient(deadline_s)

    def note(self, paths: Iterable[str]) -> None:
        """Counts the object stores of some paths, as `normalise` spells them, among those that are in use."""
        roots = {"/".join(path.split("/", 3)[:3]) for path in paths if _scheme(path) in OBJECT_SCHEMES}
        for root in roots:
            self.open(root)

    def stores(self) -> list[str]:
        """Returns the containers of object stores that are in use: "s3a://bucket"."""
        with self._lock:
            return [cluster for cluster in self._clusters if _scheme(cluster) in OBJECT_SCHEMES]

    def normalise(self, path: str) -> str:
        """Returns the canonical form of a path, valid in every process of the run, without a trailing slash.

        As in Spark and Hadoop, a path without a scheme belongs to `fs.defaultFS`, a relative one to the user's home
        there. A local path becomes absolute in this process's working directory, and loses its `file:` unless it would
        then mean another file system. A path of ViewFS becomes that of the file system to which its mount table leads.
        Nothing is percent-decoded.

        Raises:
            ConfigError: the path is empty, leads to no cluster, or would show encrypted files without decrypting them.
        """
        if not path.strip():
            raise ConfigError("a path is empty: name a file or folder")
        found = _SCHEME.match(path)
        scheme = found.group(1).lower() if found else ""
        if scheme == "file" or (not scheme and self._is_local):
            return local_path(path) if self._is_local else f"file://{local_path(path)}"
        if scheme == VIEWFS or (not scheme and _scheme(self.hadoop.default_fs) == VIEWFS):
            return self._mounted(path, scheme)
        if not scheme:
            absolute = path if path.startswith("/") else f"/user/{self.credentials.user()}/{path}"
            return self._canonical(path, self._default_cluster(), absolute)
        if scheme not in _SUPPORTED:
            return path.rstrip("/")
        authority = _authority(path)
        cluster = f"{scheme}://{authority}" if authority else self._default_cluster(scheme, path)
        return self._canonical(path, cluster, _below(path))

    def _canonical(self, path: str, cluster: str, absolute: str) -> str:
        below = _tidy(absolute)
        if f"{below}/".startswith(f"{_RAW}/"):
            there = below.removeprefix(_RAW) or "/"
            raise ConfigError(f"{path}: {_RAW} shows encrypted files as they lie on disk: write {there}")
        if _scheme(cluster) == "hdfs":
            check_not_mounted(path, _authority(cluster), below, self.hadoop.properties)
        return cluster + below

    def _mounted(self, path: str, scheme: str) -> str:
        """Returns the canonical form of a path of ViewFS: of the file system to which it leads."""
        properties, authority = self.hadoop.properties, _authority(path if scheme else self.hadoop.default_fs)
        if scheme and not authority and _scheme(self.hadoop.default_fs) == VIEWFS:
            authority = _authority(self.hadoop.default_fs)
        absolute = _below(path) if scheme else path
        if not absolute.startswith("/"):
            absolute = f"{home_of(authority, self.credentials.user(), properties)}/{path}"
        found = mounted(path, authority, _tidy(absolute), properties)
        if _scheme(found) == VIEWFS:
            raise ConfigError(f"{path}: its mount point leads to {found}: write where that really is")
        return self.normalise(found)

    @property
    def _is_local(self) -> bool:
        return _scheme(self.hadoop.default_fs) == "file"

    def _default_cluster(self, scheme: str = "", path: str = "") -> str:
        """Returns the scheme and authority of `fs.defaultFS`."""
        default = self.hadoop.default_fs
        if scheme and scheme != _scheme(default):
            raise ConfigError(
                f"{path} names no cluster, and fs.defaultFS is {default}: write {scheme}://<host>:<port>/..."
            )
        return f"{_scheme(default)}://{_authority(default)}"

    def _cluster(self, scheme: str, authority: str) -> HdfsStorage | ObjectStorage:
        cluster = f"{scheme}://{authority}"
        with self._lock:
            if cluster not in self._clusters:
                self._clusters[cluster] = self._connected(scheme, cluster)
            return self._clusters[cluster]

    def _connected(self, scheme: str, cluster: str) -> HdfsStorage | ObjectStorage:
        # Imported late: their libraries take long to load in every process, and many runs need none of them. Those of
        # stores have threads, too, which a process that forks others must not have.
        if scheme in OBJECT_SCHEMES:
            from sparktf.storage.objects.object_storage import open_container  # noqa: PLC0415

            return open_container(cluster, self.hadoop, self._timeouts, self.keys)
        from sparktf.storage.hdfs.hdfs import open_cluster  # noqa: PLC0415

        return open_cluster(cluster, self.hadoop, self.credentials, self._timeouts, self.normalise)


def open_storage(path: str) -> Storage:
    """Returns the storage of a path in this process's environment; see `FileSystems.open`."""
    return FileSystems(HadoopConf.from_environment()).open(path)


def open_storage_of_runs(path: str) -> Storage:
    """Returns the storage of a path in this process's environment; see `FileSystems.open_runs`."""
    return FileSystems(HadoopConf.from_environment()).open_runs(path)


def normalise(path: str) -> str:
    """Returns a path as `FileSystems.normalise` does in this process's environment."""
    return FileSystems(HadoopConf.from_environment()).normalise(path)


def _scheme(path: str) -> str:
    found = _SCHEME.match(path)
    return found.group(1).lower() if found else "file"


def _authority(url: str) -> str:
    return urlsplit(url).netloc


def _below(url: str) -> str:
    """Returns the path after the authority; `urlsplit` would cut it at "?" and "#"."""
    return "/" + url.partition("://")[2].partition("/")[2]


def _tidy(absolute: str) -> str:
    """Returns an absolute path without "//", "/./" and "/x/../"; "" for the root."""
    return "/" + posixpath.normpath(absolute).strip("/") if absolute.strip("/") else ""
