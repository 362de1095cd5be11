"""The folder of one cluster: every path in it, its lock, and its removal."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from minihadoop.config import ClusterConfig, check_name
from minihadoop.environment import cache_root

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class ClusterFolder:
    """All files of a cluster; removed with it."""

    path: Path  # The folder. Records of processes in it are valid only under the boot that wrote them.

    @classmethod
    def of(cls, name: str) -> ClusterFolder:
        """Returns the folder of the cluster of that name, which need not exist.

        Raises:
            RefusedError: No cluster can have that name.
        """
        check_name(name)
        return cls(cache_root() / "clusters" / name)

    def record(self, name: str) -> Path:
        """Returns the path at which the process of that name records itself."""
        return self._records / name

    def records(self) -> list[Path]:
        """Returns all records, also after `close_records`."""
        return [path for folder in (self._records, self._closed_records) for path in sorted(folder.glob("*"))]

    def close_records(self) -> None:
        """Lets no process record itself any more, and so none start that is on its way."""
        with suppress(FileNotFoundError):
            self._records.rename(self._closed_records)

    @property
    def tls(self) -> Path:
        """The folder of the key and the truststore of a cluster with HTTPS."""
        return self.path / "tls"

    @property
    def certificate(self) -> Path:
        """The certificate of all its hosts, as PEM."""
        return self.tls / "certificate.pem"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def hosts_file(self) -> Path:
        return self.path / "hosts"

    @property
    def shared_edits(self) -> Path:
        """Where the active one of two NameNodes writes what the other one reads."""
        return self.path / "shared-edits"

    @property
    def kerberos(self) -> Path:
        """The realm of a secured cluster: its configuration, database and keytabs."""
        return self.path / "kerberos"

    @property
    def tickets(self) -> Path:
        """The users' tickets."""
        return self.kerberos / "tickets"

    @property
    def etc(self) -> Path:
        """What the hosts of a secured cluster see as /etc."""
        return self.path / "etc"

    def keytab(self, name: str, host: str | None = None) -> Path:
        """Returns the path of the keytab of a user, or of a service on a host."""
        return self.kerberos / "keytabs" / f"{name}{f'-{host}' if host else ''}.keytab"

    def conf(self, host: str) -> Path:
        return self.path / "conf" / host

    def data(self, host: str) -> Path:
        return self.path / "data" / host

    def log(self, daemon: str) -> Path:
        return self.logs / f"{daemon}.log"

    def create(self, config: ClusterConfig) -> None:
        """Makes the folder for a cluster that is about to start."""
        for folder in (self._records, self.logs):
            folder.mkdir(parents=True)
        self._boot.write_text(_BOOT_ID.read_text(encoding="ascii"), encoding="ascii")
        self.hosts_file.write_text(config.hosts_file(), encoding="ascii")
        self._config.write_text(config.to_json(), encoding="utf-8")

    def mark_complete(self) -> None:
        """Records that the start is complete."""
        self._complete.touch()

    def is_complete(self) -> bool:
        """Whether a start was completed here since the machine booted."""
        return self._complete.exists() and self.is_of_this_boot()

    def is_of_this_boot(self) -> bool:
        with suppress(FileNotFoundError):
            return self._boot.read_text(encoding="ascii") == _BOOT_ID.read_text(encoding="ascii")
        return False

    def read_config(self) -> ClusterConfig:
        return ClusterConfig.from_json(self._config.read_text(encoding="utf-8"))

    @contextmanager
    def locked(self, waiting: Callable[[], None]) -> Iterator[None]:
        """Holds the cluster for one command; `waiting` is called once if another command has it.

        The folder itself is the lock, so that removing the cluster leaves no lock file behind.
        """
        while True:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                _lock(descriptor, waiting)
                if self._is(descriptor):
                    yield
                    return
            finally:
                os.close(descriptor)

    def clear(self) -> None:
        """Removes all that is in the folder, which stays, and with it the lock on it."""
        for entry in list(self.path.iterdir()):
            if entry.is_dir():
                _remove_tree(entry)
            else:
                entry.unlink()

    def remove(self) -> None:
        """Removes the folder, and the folder of all clusters with the last one."""
        self.clear()
        self.path.rmdir()
        with suppress(OSError):
            self.path.parent.rmdir()

    def _is(self, descriptor: int) -> bool:
        """Whether the folder that was locked is still the one at this path."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        return False

    @property
    def _records(self) -> Path:
        return self.path / "processes"

    @property
    def _closed_records(self) -> Path:
        return self.path / "processes.closed"

    @property
    def _boot(self) -> Path:
        return self.path / "boot_id"

    @property
    def _config(self) -> Path:
        return self.path / "cluster.json"

    @property
    def _complete(self) -> Path:
        return self.path / "complete"


def _remove_tree(path: Path) -> None:
    try:
        shutil.rmtree(path)
    except PermissionError:  # containers may leave folders that not even their owner may write
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        shutil.rmtree(path)


def _lock(descriptor: int, waiting: Callable[[], None]) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        waiting()
        fcntl.flock(descriptor, fcntl.LOCK_EX)
