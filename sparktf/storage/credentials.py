"""Credentials for file systems; asked for each client and request, since tokens are renewed."""

from __future__ import annotations

import getpass
import os
from typing import Protocol


class Credentials(Protocol):
    """The user and tokens that a file system authenticates."""

    def user(self) -> str:
        """Returns the user's name."""

    def token(self, authority: str) -> str | None:
        """Returns the delegation token for a cluster; None with simple authentication."""


class SimpleCredentials:
    """Hadoop's simple authentication: the client names its user."""

    def __init__(self, user: str | None = None) -> None:
        """Args: user: By default HADOOP_USER_NAME, else the process's user."""
        self._user = user

    def user(self) -> str:
        return self._user or process_user()

    def token(self, authority: str) -> str | None:
        del authority
        return None


def process_user() -> str:
    """Returns the user that Hadoop's own clients in this process would act as."""
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
