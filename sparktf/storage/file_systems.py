"""Which storage a path belongs to: `FileSystems` is how all others come by a `Storage`."""

from __future__ import annotations

import posixpath
import re
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sparktf.errors import ConfigError
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import Storage, Timeouts
from sparktf.storage.credentials import Credentials, SimpleCredentials
from sparktf.storage.local import LocalStorage, local_path

if TYPE_CHECKING:
    from sparktf.storage.hdfs.hdfs import HdfsStorage

# "file:/x" is how Hadoop prints a local path. Any other scheme needs "://": "day:1/part" is a relative path.
_SCHEME = re.compile(r"^(file(?=:)|[a-z][a-z0-9+.-]*(?=://))", re.IGNORECASE)

_SUPPORTED = ("file", "hdfs", "webhdfs", "swebhdfs")


class FileSystems:
    """The file systems that a Hadoop configuration leads to. Thread-safe; one storage for each cluster."""

    def __init__(
        self,
        hadoop: HadoopConf | None = None,
        credentials: Credentials | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        """Connects to nothing yet.

        Args:
            hadoop: By default an empty configuration: a path without a scheme is local.
            credentials: By default simple authentication as the process's user.
        """
        self.hadoop = hadoop or HadoopConf()
        self._credentials = credentials or SimpleCredentials()
        self._timeouts = timeouts or Timeouts()
        self._lock = threading.Lock()
        self._clusters: dict[str, HdfsStorage] = {}

    def open(self, path: str, *, deadline_s: float | None = None) -> Storage:
        """Returns the storage that a path belongs to.

        Args:
            deadline_s: How long it may wait out trouble, if not as long as is usual: for what is not worth waiting for.

        Raises:
            ConfigError: there is no storage for the path.
        """
        path = self.normalise(path)
        scheme = _scheme(path)
        if scheme == "file":
            # Where a path without a scheme is not local, entries must not look like one.
            return LocalStorage("" if self._is_local else "file://")
        if scheme not in _SUPPORTED:
            supported = ", ".join(f"{name}://" for name in _SUPPORTED)
            raise ConfigError(f"no storage for {scheme}:// ({path}); supported: {supported} and paths without a scheme")
        storage = self._cluster(scheme, _authority(path))
        return storage if deadline_s is None else storage.patient(deadline_s)

    def normalise(self, path: str) -> str:
        """Returns the one spelling of a path that every process of the run understands, without a slash at its end.

        As in Spark and Hadoop, a path without a scheme belongs to `fs.defaultFS`, a relative one to the user's home
        there. A local path becomes absolute, against this process's working directory, and loses its `file:` unless
        it would mean another file system then. Characters are taken as they are: nothing is percent-decoded.

        Raises:
            ConfigError: the path is empty, or names no cluster.
        """
        if not path.strip():
            raise ConfigError("a path is empty")
        found = _SCHEME.match(path)
        scheme = found.group(1).lower() if found else ""
        if scheme == "file" or (not scheme and self._is_local):
            return local_path(path) if self._is_local else f"file://{local_path(path)}"
        if not scheme:
            absolute = path if path.startswith("/") else f"/user/{self._credentials.user()}/{path}"
            return self._default_cluster() + _tidy(absolute)
        if scheme not in _SUPPORTED:
            return path.rstrip("/")
        authority = _authority(path)
        cluster = f"{scheme}://{authority}" if authority else self._default_cluster(scheme, path)
        return cluster + _tidy(_below(path))

    @property
    def _is_local(self) -> bool:
        return _scheme(self.hadoop.default_fs) == "file"

    def _default_cluster(self, scheme: str = "", path: str = "") -> str:
        """Returns the scheme and authority of `fs.defaultFS`."""
        default = self.hadoop.default_fs
        if scheme and scheme != _scheme(default):
            raise ConfigError(f"{path} names no cluster, and fs.defaultFS is {default}")
        return f"{_scheme(default)}://{_authority(default)}"

    def _cluster(self, scheme: str, authority: str) -> HdfsStorage:
        cluster = f"{scheme}://{authority}"
        with self._lock:
            if cluster not in self._clusters:
                # Its libraries take long to load, in every process of a run, and one without a cluster needs none.
                from sparktf.storage.hdfs.hdfs_cluster import open_cluster  # noqa: PLC0415

                self._clusters[cluster] = open_cluster(
                    scheme, authority, self.hadoop, self._credentials, self._timeouts
                )
            return self._clusters[cluster]


def open_storage(path: str) -> Storage:
    """Returns the storage that a path belongs to in this process's environment; see `FileSystems.open`."""
    return FileSystems(HadoopConf.from_environment()).open(path)


def normalise(path: str) -> str:
    """Returns a path as `FileSystems.normalise` does in this process's environment."""
    return FileSystems(HadoopConf.from_environment()).normalise(path)


def _scheme(path: str) -> str:
    found = _SCHEME.match(path)
    return found.group(1).lower() if found else "file"


def _authority(url: str) -> str:
    return urlsplit(url).netloc


def _below(url: str) -> str:
    """Returns what follows the authority; `urlsplit` would take "?" and "#" out of a path."""
    return "/" + url.partition("://")[2].partition("/")[2]


def _tidy(absolute: str) -> str:
    """Returns an absolute path without what says nothing ("//", "/./", "/x/../"); "" for the root."""
    return "/" + posixpath.normpath(absolute).strip("/") if absolute.strip("/") else ""
