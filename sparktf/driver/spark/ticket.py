"""Kerberos for commands, which have no Spark session: delegation tokens by the user's ticket.

Hadoop's own client asks for them, in a JVM that PySpark starts, once a path on a secured cluster is opened.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from sparktf.hadoop import HadoopConf
from sparktf.knobs import KNOBS
from sparktf.storage.credentials import (
    Credentials,
    FileCredentials,
    credentials_here,
    has_token_file,
    own_token_path,
    write_token_file,
)
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.store_keys import StoreKeys
from sparktf.storage.tokens import parse_tokens, token_file


def command_file_systems(settings: Mapping[str, str] | None = None) -> FileSystems:
    """Returns the file systems of a command, with HADOOP_CONF_DIR's configuration.

    Args:
        settings: Spark's that the command would start an application with: `spark.hadoop.*` count here, too.

    Raises:
        ConfigError: that cannot be read.
    """
    hadoop = HadoopConf.from_environment(settings)
    # A process that was given tokens, as in a container, may have no ticket.
    secured = hadoop.is_secure and not has_token_file()
    credentials: Credentials = TicketCredentials(hadoop) if secured else credentials_here(hadoop.auth_to_local)
    return FileSystems(hadoop, credentials, keys=_LateKeys(hadoop))


class _LateKeys:
    """See `StoreKeys`: those of a command, looked for once it opens a store."""

    def __init__(self, hadoop: HadoopConf) -> None:
        self._hadoop = hadoop
        self._lock = threading.Lock()
        self._keys: StoreKeys | None = None

    def properties(self, store: str) -> Mapping[str, str]:
        """See `StoreKeys`. Raises `PreflightError` if a credential provider cannot be read."""
        from sparktf.driver.spark.driver_keys import CommandKeys  # noqa: PLC0415 - pyspark: most commands need none

        with self._lock:
            self._keys = self._keys or CommandKeys(self._hadoop)
        return self._keys.properties(store)

    def edition(self) -> str:
        return ""


class TicketCredentials:
    """See `Credentials`: tokens asked for with the user's ticket; thread-safe.

    They are those of the default file system, and of other name services once a path there is opened. They are asked
    for again where HDFS refuses them: whoever follows a run may do so for longer than they live.
    """

    def __init__(self, hadoop: HadoopConf) -> None:
        """Asks for nothing yet."""
        self._hadoop = hadoop
        self._lock = threading.Lock()
        self._user = ""
        self._clusters = [hadoop.default_fs]
        self._path = own_token_path(self)
        self._file: FileCredentials | None = None
        self._asked_s = 0.0
        self._refused = False

    def user(self) -> str:
        """See `Credentials`. Raises as `token`."""
        self._tokens()
        return self._user

    def token(self, authority: str) -> str | None:
        """See `Credentials`.

        Raises:
            PreflightError: there is no ticket, or none that the cluster takes.
            ConfigError: a name service is configured in part only.
        """
        found = self._tokens().token(authority)
        url = f"hdfs://{authority}"
        if found or url in self._clusters or not self._hadoop.is_name_service(authority):
            return found
        self._clusters.append(url)
        return self._tokens(anew=True).token(authority)

    def edition(self) -> str:
        return self._tokens().edition()

    def token_file(self) -> str:
        return self._tokens().token_file()

    def forget(self) -> None:
        self._refused = True

    def _tokens(self, *, anew: bool = False) -> FileCredentials:
        with self._lock:
            # One that is refused right after it was given would be refused again.
            worn = self._refused and time.monotonic() - self._asked_s >= KNOBS.token_poll_s
            self._refused = False
            if self._file is None or worn or anew:
                content = self._asked()
                self._asked_s = time.monotonic()
                write_token_file(self._path, content)
                self._file = FileCredentials([self._path], self._hadoop.auth_to_local)
            return self._file

    def _asked(self) -> bytes:
        # PySpark and its JVM take two seconds, which commands on a cluster without Kerberos need not wait for.
        from sparktf.driver.spark.driver_tokens import spelled  # noqa: PLC0415
        from sparktf.driver.spark.jvm_tokens import tokens_by_ticket  # noqa: PLC0415
        from sparktf.driver.spark.log import QUIET_LOG4J  # noqa: PLC0415
        from sparktf.driver.spark.login import tokens_in_time  # noqa: PLC0415

        for cluster in self._clusters:
            self._hadoop.namenodes(urlsplit(cluster).netloc)  # one that is named in part only is no matter of tickets
        options = [f"-Dlog4j2.configurationFile={QUIET_LOG4J}"]
        folder = os.environ["HADOOP_CONF_DIR"]
        self._user, content = tokens_in_time(lambda: tokens_by_ticket(self._clusters, folder, options))
        return token_file(spelled(parse_tokens(content), self._hadoop))
