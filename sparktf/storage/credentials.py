"""Credentials for file systems; asked for each client and request, since tokens are renewed.

A process under Kerberos reads its tokens from a file of Hadoop's format. YARN gives each container one, which stays as
it is; a run's newest tokens are beside it, in the folder that Spark gives to the executor (`TOKENS`), where the agent
writes them as the driver hands them out.
"""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from sparktf.hadoop import PROXY_USER
from sparktf.storage.reread import RereadFile
from sparktf.storage.short_names import short_name
from sparktf.storage.tokens import HDFS_KIND, Token, TokenFormatError, parse_tokens

TOKENS = "sparktf-tokens"
"""Name of the file with a run's newest tokens in an executor's local folder."""

TOKEN_FILE = "HADOOP_TOKEN_FILE_LOCATION"
"""The variable by which Hadoop's clients, and hdfs-native, find a token file."""


class Credentials(Protocol):
    """The user and tokens that a file system authenticates."""

    def user(self) -> str:
        """Returns the user's name."""

    def token(self, authority: str) -> str | None:
        """Returns the delegation token for a cluster; None with simple authentication."""

    def edition(self) -> str:
        """Returns a text that changes with the tokens."""

    def token_file(self) -> str:
        """Returns the path of a file with the present tokens; "" without any."""

    def forget(self) -> None:
        """Looks for other tokens at the next question: one was refused."""


class SimpleCredentials:
    """Hadoop's simple authentication: the client names its user."""

    def __init__(self, user: str | None = None) -> None:
        """Args: user: By default the process's (`process_user`)."""
        self._user = user

    def user(self) -> str:
        return self._user or process_user()

    def token(self, authority: str) -> str | None:
        del authority
        return None

    def edition(self) -> str:
        return ""

    def token_file(self) -> str:
        return ""

    def forget(self) -> None:
        pass


class KnownTokens:
    """Tokens, and which of them is a cluster's: a name is resolved once, and not for each request that is signed.

    Attributes:
        tokens: All of them.
    """

    def __init__(self, tokens: Sequence[Token] = ()) -> None:
        """Resolves nothing yet."""
        self.tokens = tuple(tokens)
        self._found: dict[str, Token] = {}

    def url_string(self, authority: str) -> str | None:
        """Returns the token for a cluster as WebHDFS takes it; None if there is none."""
        found = self._found.get(authority) or token_for(authority, self.tokens)
        if found is None:
            return None
        self._found[authority] = found
        return found.url_string()


class FileCredentials:
    """See `Credentials`: those of a file, read again when it changes; simple authentication while it has no token."""

    def __init__(self, places: Sequence[Path], rules: str = "") -> None:
        """Reads nothing yet.

        Args:
            places: Files, of which the first that exists is read.
            rules: `hadoop.security.auth_to_local`.
        """
        self._rules = rules
        self._file = RereadFile(places, _known_tokens, KnownTokens())

    def user(self) -> str:
        """Returns the short name of the principal that the tokens are of, else the process's user."""
        with suppress(TokenFormatError):
            for token in self._file.read()[1].tokens:
                return short_name(token.owner(), self._rules)
        return process_user()

    def token(self, authority: str) -> str | None:
        return self._file.read()[1].url_string(authority)

    def edition(self) -> str:
        return self._file.read()[0]

    def token_file(self) -> str:
        edition, known = self._file.read()
        return edition.partition("|")[0] if known.tokens else ""

    def forget(self) -> None:
        self._file.forget()


def _known_tokens(content: bytes) -> KnownTokens:
    return KnownTokens([token for token in parse_tokens(content) if token.kind == HDFS_KIND])


def credentials_here(rules: str = "") -> Credentials:
    """Returns the credentials of this process by its environment.

    Args:
        rules: `hadoop.security.auth_to_local`.
    """
    places = list(_token_places())
    return FileCredentials(places, rules) if places else SimpleCredentials()


def has_token_file() -> bool:
    """Whether this process was given tokens."""
    return any(place.exists() for place in _token_places())


def _token_places() -> Iterator[Path]:
    if local := os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]:
        yield Path(local, TOKENS)
    if given := os.environ.get(TOKEN_FILE):
        yield Path(given)


def own_token_path(owner: object) -> Path:
    """Returns the path for a token file in a folder that is this process's alone, and goes with `owner`.

    The folder is made with the first file (`write_token_file`): most processes never write one, and one that is killed
    would leave it behind.
    """
    folder = Path(tempfile.gettempdir(), f"sparktf-tokens-{secrets.token_hex(16)}")
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder / TOKENS


def is_own_token_path(path: str) -> bool:
    """Whether a token file is sparktf's, in the environment for the sake of hdfs-native alone."""
    return Path(path).name == TOKENS


@contextmanager
def own_tokens_hidden() -> Iterator[None]:
    """Hides this process's own tokens from a JVM that it starts: with those, it would get no others by its ticket."""
    path = os.environ.get(TOKEN_FILE, "")
    if not is_own_token_path(path):
        yield
        return
    del os.environ[TOKEN_FILE]
    try:
        yield
    finally:
        os.environ.setdefault(TOKEN_FILE, path)


def write_token_file(path: Path, content: bytes) -> None:
    """Writes a token file, which its owner alone reads, in the place of another one; makes its folder.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    new = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def token_for(authority: str, tokens: Sequence[Token]) -> Token | None:
    """Returns the token for a cluster: of its name service, its address or its host; None if there is none.

    Args:
        authority: "host:port", "host" or a name service, as in a path.
    """
    known = {token.service: token for token in reversed(tokens)}
    # As it is spelled, before a name server is asked for other spellings.
    for service in (authority, name_service_of(authority)):
        if service in known:
            return known[service]
    services = services_of(authority)
    for service in sorted(services & known.keys()):
        return known[service]
    # A path may name the web server, whose port is another one: the NameNode of a host is one.
    hosts = {service.rpartition(":")[0] or service for service in services}
    return next((token for token in tokens if token.service.rpartition(":")[0] in hosts), None)


def name_service_of(service: str) -> str:
    """Returns how tokens spell a name service of several NameNodes."""
    return f"ha-hdfs:{service}"


def services_of(authority: str) -> set[str]:
    """Returns the spellings of a NameNode's service: Hadoop's own has the address in place of the name."""
    host, _, port = authority.rpartition(":")
    if not host:
        host, port = authority, ""
    with suppress(OSError):
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)}
        return {f"{name}:{port}" if port else name for name in {host, *found}}
    return {authority}


def process_user() -> str:
    """Returns the user that Hadoop's own clients in this process would act as."""
    return os.environ.get(PROXY_USER) or os.environ.get("HADOOP_USER_NAME") or login_name()


def login_name() -> str:
    """Returns the name of this process's user.

    Clusters of pods may run a container by a user id that has no name there: then it is the one that Spark gives to
    all pods of an application, else the number.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the former before Python 3.13
        return os.environ.get("SPARK_USER") or str(os.geteuid())
