"""HDFS: reads by hdfs-native, which is fast, and everything else by WebHDFS, with retries for a cluster in trouble."""

from __future__ import annotations

import os
import posixpath
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from sparktf.errors import (
    StorageError,
    StorageExistsError,
    StorageNotFoundError,
    StorageUnavailableError,
)
from sparktf.hadoop import HadoopConf
from sparktf.storage.base import FileEntry, Storage, Timeouts, sha256_of
from sparktf.storage.credentials import Credentials, process_user
from sparktf.storage.hdfs.hdfs_native import NativeClient, NativeFile
from sparktf.storage.hdfs.hdfs_stream import HdfsStream
from sparktf.storage.hdfs.hdfs_upload import BytesContent, Content, FileContent, StoredContent, Trouble
from sparktf.storage.hdfs.webhdfs import Avoided, Status, WebHdfs
from sparktf.storage.local import storage_errors, whole_file
from sparktf.told import line_of_error
from sparktf.trusted import trusted

_COPY_NBYTES = 8 << 20

_T = TypeVar("_T")


class HdfsStorage(Storage):
    """`Storage` on one HDFS; paths, also of entries, are "<cluster>/x".

    Temporary failures (a restarting NameNode, safe mode, a DataNode that died or froze) are retried until `deadline_s`
    after the first one, then raised as `StorageUnavailableError`. Files are written to a hidden sibling, read back, and
    renamed into place.
    """

    def __init__(
        self,
        cluster: str,
        web: WebHdfs,
        native: NativeClient | None,
        timeouts: Timeouts,
        normalise: Callable[[str], str],
    ) -> None:
        """Connects to nothing yet.

        Args:
            cluster: Scheme and authority of paths: "hdfs://nn:8020".
            native: Reads fast; None if only WebHDFS can be reached.
            normalise: Makes "hdfs://nn:8020/x" of a path that may be spelled by a mount table.
        """
        self._cluster = cluster
        self._web = web
        self._native = native
        self._timeouts = timeouts
        self._normalise = normalise

    def patient(self, deadline_s: float) -> HdfsStorage:
        """Returns the same storage with another deadline."""
        timeouts = self._timeouts._replace(deadline_s=deadline_s)
        return HdfsStorage(self._cluster, self._web, self._native, timeouts, self._normalise)

    def user(self) -> str:
        return self._web.user()

    def stat(self, path: str) -> FileEntry:
        plain = self._plain(path)
        return self._entry(plain, self._retried(lambda: self._web.status("access", plain)))

    def list(self, path: str) -> tuple[FileEntry, ...]:
        plain = self._plain(path)
        found = self._retried(lambda: self._web.list("list", plain))
        if [status.name for status in found] == [""]:
            raise StorageNotFoundError(f"cannot list {self._cluster}{plain}: Not a directory")
        return tuple(sorted(self._entry(f"{plain.rstrip('/')}/{status.name}", status) for status in found))

    def open(self, path: str) -> BinaryIO:
        """See `Storage`. The stream has `read_buffer` for Arrow, and survives the loss of a DataNode."""
        return cast(BinaryIO, self._open(self._plain(path)))

    def read_bytes(self, path: str) -> bytes:
        with self.open(path) as stream:
            return stream.read()

    def write_bytes(self, path: str, content: bytes) -> None:
        self._store("write", self._plain(path), lambda: BytesContent(content))

    def upload(self, local: Path, path: str) -> None:
        with storage_errors("read", str(local)), local.open("rb") as stream:
            self._store(f"copy {local.name} to", self._plain(path), lambda: FileContent(stream))

    def download(self, path: str, local: Path) -> None:
        with (
            self._open(self._plain(path)) as stream,
            storage_errors(f"copy {path} to", str(local)),
            whole_file(os.path.abspath(local)) as sink,
        ):
            left = stream.nbytes
            while left:
                chunk = stream.read_buffer(min(left, _COPY_NBYTES))
                sink.write(chunk)
                left -= len(chunk)

    def copy(self, source: str, target: str) -> str:
        """See `Storage`. The data pass through this process, which reads the copy back, as it does all files."""
        with self._open(self._plain(source)) as stream:
            doing = f"copy {source} to"
            return self._store(doing, self._plain(target), lambda: StoredContent(cast(BinaryIO, stream), stream.nbytes))

    def checksum(self, path: str) -> str:
        with self.open(path) as stream:
            return sha256_of(stream)

    def make_dirs(self, path: str) -> None:
        plain = self._plain(path)
        self._retried(lambda: self._web.make_dirs("make the folder", plain))

    def rename(self, source: str, target: str) -> None:
        old, new = self._plain(source), self._plain(target)
        self._rename(f"rename {self._cluster}{old} to", old, new, overwrite=False)

    def replace(self, source: str, target: str) -> None:
        old, new = self._plain(source), self._plain(target)
        doing = f"rename {self._cluster}{old} to"
        with suppress(StorageNotFoundError):
            # The NameNode would replace an empty folder, and give no specific error for another one.
            if self._retried(lambda: self._web.status(doing, new)).is_dir:
                raise StorageExistsError(f"cannot {doing} {self._cluster}{new}: it is a folder")
        self._rename(doing, old, new, overwrite=True)

    def delete(self, path: str) -> None:
        plain = self._plain(path)
        self._retried(lambda: self._web.delete(plain))

    def free_nbytes(self, path: str) -> int:
        """See `Storage`. Each byte counts once for each replica; quotas of parent folders are not considered."""
        plain = self._plain(path)
        return self._retried(lambda: self._web.free_nbytes("access", plain))

    def probe(self, path: str) -> None:
        written = f"{path.rstrip('/')}/.probe-{secrets.token_hex(8)}"
        renamed = f"{written}-renamed"
        self.make_dirs(path)
        try:
            self.write_bytes(written, b"sparktf")
            self.rename(written, renamed)
        except BaseException:
            with suppress(StorageError):
                self._web.delete(self._plain(written))
            raise
        self.delete(renamed)

    # ---- reading ----

    def _open(self, plain: str) -> HdfsStream:
        native = None
        if self._native is not None:
            try:
                native = self._native.open(plain)
            except FileNotFoundError as error:
                reason = line_of_error(error)
                raise StorageNotFoundError(f"cannot open {self._cluster}{plain}: {reason}") from error
        if native is not None:
            return self._stream(plain, native.nbytes, native)
        found = self._retried(lambda: self._web.status("open", plain))
        if found.is_dir:
            raise StorageNotFoundError(f"cannot open {self._cluster}{plain}: it is a folder")
        return self._stream(plain, found.nbytes, None)

    def _stream(self, plain: str, nbytes: int, native: NativeFile | None) -> HdfsStream:
        return HdfsStream(nbytes, native, partial(self._read_slowly, plain), self._give_up_native)

    def _read_slowly(self, plain: str, offset: int, into: memoryview) -> None:
        """Fills a buffer by WebHDFS, at another DataNode if one fails. Raises `StorageError` after the deadline."""
        done, avoided = 0, Avoided()
        trouble = Trouble(self._timeouts.deadline_s)
        for attempt in trouble.attempts():
            with attempt:
                start = done
                for more in self._web.read_into(plain, offset + start, into[start:], avoided):
                    done = start + more
                    trouble.over()

    def _give_up_native(self) -> None:
        """Opens files by WebHDFS for a while, after hdfs-native has failed on one."""
        if self._native is not None:
            self._native.rest()

    # ---- writing ----

    def _store(self, doing: str, plain: str, content: Callable[[], Content]) -> str:
        """Writes a whole file aside, with retries, and renames it into place; returns its checksum.

        Each try writes its own file in a hidden folder beside the target. A DataNode that was given up may still create
        its file later, but not after that folder is deleted, since `createparent` is false.
        """
        hidden = f"{posixpath.dirname(plain).rstrip('/')}/.tmp-{secrets.token_hex(8)}"
        avoided = Avoided()
        new = checksum = ""
        try:
            for attempt in Trouble(self._timeouts.deadline_s).attempts():
                with attempt:
                    new = f"{hidden}/{attempt.retry_state.attempt_number}"
                    # The NameNode refuses this at once in safe mode; a DataNode would retry a write for minutes.
                    self._make_folder(doing, hidden, plain)
                    body = content()
                    self._web.create(doing, plain, new, body, avoided)
                    self._verify(doing, plain, new, body)
                    checksum = body.sha256
            self._rename(doing, new, plain, overwrite=True)
            return checksum
        finally:
            with suppress(StorageError):
                self._web.delete(hidden)

    def _make_folder(self, doing: str, folder: str, plain: str) -> None:
        try:
            self._web.make_dirs(doing, folder, for_path=plain)
        except StorageExistsError as error:
            raise StorageNotFoundError(f"cannot {doing} {self._cluster}{plain}: Not a directory") from error

    def _verify(self, doing: str, plain: str, new: str, body: Content) -> None:
        """Reads back a written file.

        Raises:
            StorageUnavailableError: it differs from the content; another try may succeed.
        """
        arrived = self._web.status(doing, new).nbytes
        if arrived != len(body):
            raise StorageUnavailableError(
                f"cannot {doing} {self._cluster}{plain}: {arrived} of {len(body)} bytes arrived"
            )
        if body.nbytes_sent != len(body):
            raise StorageError(
                f"cannot {doing} {self._cluster}{plain}: the source ended after {body.nbytes_sent} of {len(body)} bytes"
            )
        with self._open(new) as stream:
            if sha256_of(cast(BinaryIO, stream)) != body.sha256:
                raise StorageUnavailableError(
                    f"cannot {doing} {self._cluster}{plain}: the stored file has a different checksum"
                )

    # ---- renaming ----

    def _rename(self, doing: str, old: str, new: str, *, overwrite: bool) -> None:
        """Renames atomically. If an answer is lost, the inode at the target tells whether the rename was done."""
        inode = self._retried(lambda: self._web.status(doing, old, for_path=new)).inode
        if inode is None:
            self._rename_checked(doing, old, new, overwrite=overwrite)
            return
        for attempt in Trouble(self._timeouts.deadline_s).attempts():
            with attempt:
                try:
                    self._web.rename(doing, old, new, overwrite=overwrite)
                except (StorageNotFoundError, StorageExistsError):
                    if attempt.retry_state.attempt_number == 1 or not self._lies_at(new, inode):
                        raise

    def _lies_at(self, plain: str, inode: int) -> bool:
        try:
            return self._web.status("access", plain).inode == inode
        except StorageNotFoundError:
            return False

    def _rename_checked(self, doing: str, old: str, new: str, *, overwrite: bool) -> None:
        """Renames through a server without rename options: HttpFS would move a folder *into* an existing one.

        So the check comes before the rename, and does not detect another writer at the same moment.
        """
        self._retried(lambda: self._web.status(doing, posixpath.dirname(new)))
        with suppress(StorageNotFoundError):
            there = self._retried(lambda: self._web.status(doing, new))
            if not overwrite or there.is_dir:
                raise StorageExistsError(f"cannot {doing} {self._cluster}{new}: it exists")
            self._retried(lambda: self._web.delete(new))
        self._retried(lambda: self._web.rename(doing, old, new, overwrite=overwrite))

    # ---- paths and patience ----

    def _plain(self, path: str) -> str:
        if not path.startswith(self._cluster):
            named = self._normalise(path)
            path = named if named.startswith(self._cluster) else path
        plain = path.removeprefix(self._cluster).rstrip("/")
        return plain or "/"

    def _entry(self, plain: str, status: Status) -> FileEntry:
        return FileEntry(f"{self._cluster}{plain}", status.nbytes, status.is_dir, status.modified_ms)

    def _retried(self, call: Callable[[], _T]) -> _T:
        for attempt in Trouble(self._timeouts.deadline_s).attempts():
            with attempt:
                return call()
        raise AssertionError("tenacity raises what the last attempt raised")


_WEB = {"webhdfs": "http", "swebhdfs": "https"}


def open_cluster(
    cluster: str,
    hadoop: HadoopConf,
    credentials: Credentials,
    timeouts: Timeouts,
    normalise: Callable[[str], str],
) -> HdfsStorage:
    """Returns the storage of a cluster, "hdfs://nn:8020", "webhdfs://..." or "swebhdfs://..."; connects to nothing yet.

    Raises:
        ConfigError: the configuration names the cluster in part only, or has no umask or truststore where it says so.
    """
    scheme, _, authority = cluster.partition("://")
    native: NativeClient | None = None
    if scheme in _WEB and hadoop.is_name_service(authority):
        urls = [node.http for node in hadoop.namenodes(authority, _WEB[scheme])]
    elif scheme in _WEB:
        urls = [f"{_WEB[scheme]}://{authority}"]
    else:
        urls = [node.http for node in hadoop.namenodes(authority)]
        # hdfs-native takes its user from the environment, so it cannot act for another one without a token of theirs.
        if credentials.token_file() or credentials.user() == process_user():
            native = NativeClient(cluster, dict(hadoop.for_nodes().properties), credentials, timeouts.io_s)
    by_https = any(url.startswith("https:") for url in urls)
    trust = trusted(hadoop.properties) if by_https else None
    web = WebHdfs(cluster, urls, credentials, timeouts, hadoop.umask, trust)
    return HdfsStorage(cluster, web, native, timeouts, normalise)
