"""WebHDFS: a single attempt of each operation, with timeouts; the caller decides about retries.

The NameNode answers at once, or redirects to a DataNode for data. Of several NameNodes (a name service) the client uses
the active one. Errors are `StorageError`s; temporary ones are `StorageUnavailableError`s.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import hdfs
import requests
import urllib3

from sparktf.errors import StorageError, StorageUnavailableError
from sparktf.storage.base import Timeouts
from sparktf.storage.credentials import Credentials
from sparktf.storage.hdfs.hdfs_errors import error_type, reason_of
from sparktf.storage.hdfs.webhdfs_client import SignedClient, check_response, host_of, new_session
from sparktf.trusted import untrusted

_CHUNK_NBYTES = 1 << 20
_NONE_LEFT = re.compile(r"not excluded nodes|excludeDatanodes=\S")
_OCTETS = {"content-type": "application/octet-stream"}


class Status(NamedTuple):
    """A file or folder as the NameNode describes it."""

    name: str  # Name in its folder; "" for the requested path itself
    nbytes: int
    is_dir: bool
    inode: int | None  # Constant through renames; None if the server does not tell it (HttpFS)
    modified_ms: int  # See `FileEntry`


class Avoided:
    """DataNodes that failed during one operation."""

    def __init__(self) -> None:
        self._hosts: list[str] = []

    def add(self, host: str) -> None:
        """Excludes a DataNode from now on."""
        if host not in self._hosts:
            self._hosts.append(host)

    def refused(self, reason: str) -> None:
        """Includes all of them again if the NameNode has no other left."""
        if _NONE_LEFT.search(reason):
            self._hosts.clear()

    def options(self) -> dict[str, str]:
        """Returns the parameters of the request: the NameNode knows DataNodes by address."""
        names = [name for host in self._hosts for name in {host, *_addresses(host)}]
        return {"excludedatanodes": ",".join(names)} if names else {}


class WebHdfs:
    """The operations of WebHDFS on one cluster; paths are plain ("/x"). Thread-safe."""

    def __init__(
        self,
        cluster: str,
        urls: Sequence[str],
        credentials: Credentials,
        timeouts: Timeouts,
        umask: int,
        trust: ssl.SSLContext | None,
    ) -> None:
        """Connects to nothing yet.

        Args:
            cluster: "hdfs://host:port", for messages, and as the service of tokens.
            urls: Web servers, any of which may be the active one.
            umask: The permissions that new files and folders do not have.
            trust: For HTTPS.
        """
        self._cluster = cluster
        self._new_file, self._new_folder = _permissions(0o666, umask), _permissions(0o777, umask)
        self._several = len(urls) > 1
        self._timeout = (timeouts.connect_s, timeouts.io_s)
        self._session = new_session(trust)
        self._credentials = credentials
        self._client = SignedClient(";".join(urls), self._session, credentials, urlsplit(cluster).netloc, self._timeout)

    def user(self) -> str:
        """Returns the user who asks."""
        return self._credentials.user()

    def status(self, doing: str, path: str, *, for_path: str | None = None) -> Status:
        """Returns the status of a path. Errors, such as `StorageNotFoundError`, name `for_path`."""
        with self._errors(doing, for_path or path):
            return _status(self._client._get_file_status(path).json()["FileStatus"])

    def list(self, doing: str, path: str) -> list[Status]:
        """Returns the entries of a folder; for a file, the file without a name."""
        with self._errors(doing, path):
            found = self._client._list_status(path).json()["FileStatuses"]["FileStatus"]
            return [_status(entry) for entry in found]

    def make_dirs(self, doing: str, path: str, *, for_path: str | None = None) -> None:
        """Makes a folder and those above it. Errors name `for_path`."""
        with self._errors(doing, for_path or path):
            self._client._mkdirs(path, **self._new_folder)

    def delete(self, path: str) -> None:
        """Deletes a path, if it exists."""
        with self._errors("delete", path):
            self._client._delete(path, recursive="true")

    def free_nbytes(self, doing: str, path: str) -> int:
        """Returns the bytes available below a folder, at the cluster's default replication."""
        with self._errors(doing, path):
            usage = self._client._get_quota_usage(path).json()["QuotaUsage"]
            left = int(self._client._get_status(path).json()["FsStatus"]["remaining"])
            if int(usage["spaceQuota"]) >= 0:
                left = min(left, int(usage["spaceQuota"]) - int(usage["spaceConsumed"]))
            usual = self._client._get_server_defaults(path).json()["FsServerDefaults"]
            return max(left, 0) // int(usual["replication"])

    def rename(self, doing: str, source: str, target: str, *, overwrite: bool) -> bool:
        """Renames, by a single request that may be done; returns False if the server ignored the options (HttpFS)."""
        options = "OVERWRITE" if overwrite else "NONE"
        with self._errors(doing, target):
            answer = self._client._rename(source, destination=target, renameoptions=options)
        return not answer.content

    def read_into(self, path: str, offset: int, into: memoryview, avoided: Avoided) -> Iterator[int]:
        """Reads exactly `len(into)` bytes; yields the number read so far, now and then.

        Raises:
            StorageUnavailableError: a server failed; the bytes yielded so far are valid.
        """
        done = 0
        with self._errors("read", path):
            with self._namenode(avoided):
                answer = self._client._open(path, offset=offset, length=len(into), **avoided.options())
            with closing(self._follow(answer, avoided)) as response:
                while done < len(into):
                    chunk = response.raw.read(min(_CHUNK_NBYTES, len(into) - done))
                    if not chunk:
                        raise hdfs.HdfsError(
                            f"the data ended after {done} of {len(into)} bytes", exception="EOFException"
                        )
                    into[done : done + len(chunk)] = chunk
                    done += len(chunk)
                    yield done

    def create(self, doing: str, path: str, new: str, content: Iterable[bytes], avoided: Avoided) -> None:
        """Writes the new file `new` into an existing folder; `path` is for messages, and `content` has a length."""
        with self._errors(doing, path):
            with self._namenode(avoided):
                options = {**self._new_file, **avoided.options()}
                answer = self._client._create(new, overwrite="false", createparent="false", **options)
            location = answer.headers.get("Location") or answer.json()["Location"]
            with self._datanode(location, avoided):
                # requests would send an empty iterable with chunked encoding.
                body = content if len(content) else b""  # type: ignore[arg-type]
                response = self._session.put(location, data=body, headers=_OCTETS, timeout=self._timeout)
                check_response(response)

    def _follow(self, answer: Any, avoided: Avoided) -> Any:
        """Returns the response that holds the data."""
        if answer.status_code == requests.codes.ok:
            return answer
        location = answer.headers["Location"]
        answer.close()
        with self._datanode(location, avoided):
            response = self._session.get(location, stream=True, timeout=self._timeout)
            check_response(response)
            response.raw = _Watched(response.raw, lambda: avoided.add(host_of(location)))
            return response

    @contextmanager
    def _namenode(self, avoided: Avoided) -> Iterator[None]:
        try:
            yield
        except hdfs.HdfsError as error:
            avoided.refused(str(error))
            raise

    @contextmanager
    def _datanode(self, location: str, avoided: Avoided) -> Iterator[None]:
        try:
            yield
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError):
            avoided.add(host_of(location))
            raise

    @contextmanager
    def _errors(self, doing: str, path: str) -> Iterator[None]:
        """Turns the libraries' errors into ours: "cannot <doing> <path>: <reason>"."""
        try:
            yield
        except StorageError:
            raise
        except hdfs.HdfsError as error:
            message = error.message.decode(errors="replace") if isinstance(error.message, bytes) else str(error.message)
            kind = error_type(error.exception or "", message)
            raise kind(f"cannot {doing} {self._cluster}{path}: {self._reason(error, message)}") from error
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            if why := untrusted(error):
                raise StorageError(f"cannot {doing} {self._cluster}{path}: {_host_of(error)}: {why}") from error
            others = ", and no other NameNode is active" if self._several and _is_of_namenode(error) else ""
            reason = f"{_network_reason(error)}{others}"
            raise StorageUnavailableError(f"cannot {doing} {self._cluster}{path}: {reason}") from error
        except (KeyError, ValueError) as error:
            raise StorageError(f"cannot {doing} {self._cluster}{path}: the server does not speak WebHDFS") from error

    def _reason(self, error: hdfs.HdfsError, message: str) -> str:
        if not str(error.exception or "").endswith("StandbyException"):
            return reason_of(message)
        return (
            "none of its NameNodes is active"
            if self._several
            else "this NameNode stands by: name the name service instead (dfs.nameservices), as in hdfs://<service>/..."
        )


class _Watched:
    """The body of a response, with a callback for failures."""

    def __init__(self, raw: Any, failed: Callable[[], None]) -> None:
        self._raw = raw
        self._failed = failed

    def read(self, nbytes: int) -> bytes:
        try:
            chunk: bytes = self._raw.read(nbytes)
        except (urllib3.exceptions.HTTPError, OSError):
            self._failed()
            raise
        if not chunk:
            self._failed()
        return chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def _permissions(mode: int, umask: int) -> dict[str, str]:
    """Returns the parameters as Hadoop's own clients do: default ACLs of a folder count in the umask's place."""
    return {"permission": f"{mode & ~umask:o}", "unmaskedpermission": f"{mode:o}"}


def _status(entry: dict[str, Any]) -> Status:
    is_dir = entry["type"] == "DIRECTORY"
    inode = entry.get("fileId")
    return Status(
        entry["pathSuffix"],
        0 if is_dir else int(entry["length"]),
        is_dir,
        int(inode) if inode else None,
        int(entry["modificationTime"]),
    )


def _addresses(host: str) -> list[str]:
    try:
        return sorted({str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)})
    except OSError:
        return []


def _is_of_namenode(error: BaseException) -> bool:
    """Whether it was a NameNode that was not reached; a DataNode's requests follow a redirect."""
    url = getattr(getattr(error, "request", None), "url", None) or ""
    return "/webhdfs/v1" in url and "namenoderpcaddress=" not in url


def _network_reason(error: BaseException) -> str:
    """Returns the network's error without the wrapping of the libraries."""
    text = str(error)
    for sign, reason in (
        ("onnection refused", "connection refused"),
        ("imed out", "no answer in time"),
        ("Name or service not known", "unknown host"),
        ("NameResolutionError", "unknown host"),
        ("No route to host", "no route to host"),
        ("Network is unreachable", "the network is unreachable"),
    ):
        if sign in text:
            host = _host_of(error)
            return f"{reason} ({host})" if host else reason
    return reason_of(text)


def _host_of(error: BaseException) -> str:
    url = getattr(getattr(error, "request", None), "url", None)
    return host_of(url) if url else ""
