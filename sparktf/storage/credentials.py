"""Who reads and writes. Asked each time a client is made or a request is signed, because what it says may change."""

from __future__ import annotations

import getpass
import os
from typing import Protocol


class Credentials(Protocol):
    """What a file system is told of who asks."""

    def user(self) -> str:
        """Returns the user's name."""

    def token(self, authority: str) -> str | None:
        """Returns the delegation token for a cluster, None where authentication is simple."""


class SimpleCredentials:
    """Simple authentication, as Hadoop has it: the user says who it is."""

    def __init__(self, user: str | None = None) -> None:
        """Args: user: By default HADOOP_USER_NAME, else the process's user."""
        self._user = user

    def user(self) -> str:
        return self._user or process_user()

    def token(self, authority: str) -> str | None:
        del authority
        return None


def process_user() -> str:
    """Returns whom Hadoop's own clients in this process would act as."""
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
