"""Kerberos for commands, which have no Spark session: delegation tokens by the user's ticket.

Hadoop's own client asks for them, in a JVM that PySpark starts, once a path on a secured cluster is opened.
"""

from __future__ import annotations

import os
import threading

from sparktf.hadoop import HadoopConf
from sparktf.storage.credentials import (
    Credentials,
    FileCredentials,
    credentials_here,
    has_token_file,
    own_token_path,
    write_token_file,
)
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.tokens import parse_tokens, token_file

_SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m")
"""Java's options for a JVM of a few seconds."""


def command_file_systems() -> FileSystems:
    """Returns the file systems of a command, with HADOOP_CONF_DIR's configuration.

    Raises:
        ConfigError: that cannot be read.
    """
    hadoop = HadoopConf.from_environment()
    # A process that was given tokens, as in a container, may have no ticket.
    secured = hadoop.is_secure and not has_token_file()
    credentials: Credentials = TicketCredentials(hadoop) if secured else credentials_here()
    return FileSystems(hadoop, credentials)


class TicketCredentials:
    """See `Credentials`: tokens of the default file system, asked for once, with the user's ticket; thread-safe."""

    def __init__(self, hadoop: HadoopConf) -> None:
        """Asks for nothing yet."""
        self._hadoop = hadoop
        self._lock = threading.Lock()
        self._user = ""
        self._file: FileCredentials | None = None

    def user(self) -> str:
        """See `Credentials`. Raises as `token`."""
        self._tokens()
        return self._user

    def token(self, authority: str) -> str | None:
        """See `Credentials`.

        Raises:
            PreflightError: there is no ticket, or none that the cluster takes.
        """
        return self._tokens().token(authority)

    def edition(self) -> str:
        return self._tokens().edition()

    def token_file(self) -> str:
        return self._tokens().token_file()

    def forget(self) -> None:
        pass

    def _tokens(self) -> FileCredentials:
        with self._lock:
            if self._file is None:
                content = self._asked()
                path = own_token_path(self)
                write_token_file(path, content)
                self._file = FileCredentials([path])
            return self._file

    def _asked(self) -> bytes:
        # PySpark and its JVM take two seconds, which commands on a cluster without Kerberos need not wait for.
        from py4j.protocol import Py4JError  # noqa: PLC0415

        from sparktf.driver.spark.driver_tokens import no_token, spelled  # noqa: PLC0415
        from sparktf.driver.spark.jvm_tokens import tokens_by_ticket  # noqa: PLC0415
        from sparktf.driver.spark.log import QUIET_LOG4J  # noqa: PLC0415

        options = (*_SHORT_LIVED, f"-Dlog4j2.configurationFile={QUIET_LOG4J}")
        try:
            self._user, content = tokens_by_ticket(self._hadoop.default_fs, os.environ["HADOOP_CONF_DIR"], options)
        except (Py4JError, OSError) as error:
            raise no_token(error) from error
        return token_file(spelled(parse_tokens(content), self._hadoop))
