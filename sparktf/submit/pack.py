"""`sparktf pack`: the virtual environment as an archive that runs wherever YARN unpacks it."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import struct
import sys
import tarfile
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from sparktf.errors import ConfigError, StorageError
from sparktf.submit.environment_files import (
    ArchiveMember,
    base_python,
    check_packable,
    environment_entries,
    site_packages,
)

_BLOCK = 4 << 20
_LEVEL = 1  # level 6 takes three times as long for a tenth less
_GZIP = 31  # zlib's window bits for a gzip member
_MTIME_S = 946_684_800  # the same for all files, so that the same environment gives the same archive
_SUFFIXES = (".tar.gz", ".tgz", ".tar")

# Files and folders. Package indexes' passwords stand in pip.conf, and in the address of a clone in .git/config.
_NAMES = re.compile(
    r"\.env(\..+)?|[._]?netrc|\.pypirc|pip\.(conf|ini)|uv\.toml|\.npmrc|\.condarc|\.pgpass|\.git-credentials|"
    r"id_(rsa|dsa|ecdsa|ed25519)|\.(git|hg|svn|ssh|aws|azure|gnupg|docker|kube)"
)
_KEY_STORES = (".keytab", ".p12", ".pfx", ".jks", ".jceks", ".ppk", ".kdbx")
_MAY_HOLD_KEYS = (".pem", ".key", ".json")  # beside keys, certificates of authorities, which clients need
_PRIVATE_KEY = b"PRIVATE KEY-----"
_MAX_KEY_NBYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Packed:
    """An archive: its members, bytes before and after compression, and requirements on the nodes."""

    output: Path
    members: int
    unpacked_nbytes: int
    nbytes: int
    duration_s: float
    base_python: Path
    left_out: tuple[str, ...] = ()  # Files and folders of the environment that look like credentials

    def in_words(self) -> str:
        """Returns lines for people."""
        return (
            f"{self.output}: {self.nbytes / 1e6:,.0f} MB ({self.unpacked_nbytes / 1e6:,.0f} MB in {self.members:,} "
            f"files), {self.duration_s:.0f} s\n"
            f"The nodes need the interpreter that it stands on at the same path: {self.base_python}\n"
            f"Name it in submit.archive, or copy it to HDFS once and name that."
        )


def pack(prefix: Path, output: Path) -> Packed:
    """Writes the archive, whole or not at all.

    Args:
        prefix: Folder of the environment.
        output: `.tar.gz`, or `.tar` without compression.

    Raises:
        ConfigError: the environment cannot be moved, or the output has another suffix.
        StorageError: the archive cannot be written.
    """
    started_s = time.monotonic()
    check_packable(prefix)
    if not output.name.endswith(_SUFFIXES):
        raise ConfigError(f"--output {output}: must end with one of {', '.join(_SUFFIXES)}")
    entries, left_out = _without_credentials(environment_entries(prefix, _not_installed(prefix)))
    try:
        unpacked = _write_aside(entries, output)
    except OSError as e:
        raise StorageError(f"{output}: {e.strerror or e}") from e
    duration_s = time.monotonic() - started_s
    return Packed(output, len(entries), unpacked, output.stat().st_size, duration_s, base_python(prefix), left_out)


def this_environment() -> Path:
    """Returns the environment of this process."""
    return Path(sys.prefix)


def _not_installed(prefix: Path) -> dict[str, Path]:
    """Returns sparktf itself, if it is imported from elsewhere."""
    spec = importlib.util.find_spec("sparktf")
    if spec is None or spec.origin is None or (site_packages(prefix) / "sparktf").is_dir():
        return {}
    return {"sparktf": Path(spec.origin).parent}


def _write_aside(entries: Iterable[ArchiveMember], output: Path) -> int:
    output.parent.mkdir(parents=True, exist_ok=True)
    # Readable by its owner only: the environment may hold secrets that are not recognised.
    handle, name = tempfile.mkstemp(prefix=f".{output.name}-", dir=output.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            written = _write(entries, file) if output.name.endswith(".tar") else _write_compressed(entries, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, output)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return written


def _write_compressed(entries: Iterable[ArchiveMember], file: IO[bytes]) -> int:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compressing = _GzipBlocks(file, pool)
        written = _write(
            entries, cast("IO[bytes]", compressing)
        )  # of a file, the tar stream needs no more than `write`
        compressing.finish()
    return written


def _without_credentials(entries: list[ArchiveMember]) -> tuple[list[ArchiveMember], tuple[str, ...]]:
    """Returns the members to pack, and the names of the files and folders left out."""
    left_out = {entry.name: found for entry in entries if (found := _credential(entry))}
    return [entry for entry in entries if entry.name not in left_out], tuple(sorted(set(left_out.values())))


def _credential(entry: ArchiveMember) -> str:
    """Returns the file that holds credentials, or its folder; "" if there is none."""
    parts = entry.name.split("/")
    for depth, part in enumerate(parts, start=1):
        if _NAMES.fullmatch(part):
            return "/".join(parts[:depth])
    return entry.name if entry.source is not None and _holds_a_key(entry.source) else ""


def _holds_a_key(path: Path) -> bool:
    if path.suffix in _KEY_STORES:
        return True
    if path.suffix not in _MAY_HOLD_KEYS or path.stat().st_size > _MAX_KEY_NBYTES:
        return False
    return _PRIVATE_KEY in path.read_bytes()


def _write(entries: Iterable[ArchiveMember], file: IO[bytes]) -> int:
    """Writes the tar stream; returns the bytes of its files."""
    total = 0
    with tarfile.open(fileobj=file, mode="w|", bufsize=1 << 20, format=tarfile.GNU_FORMAT) as tar:
        for entry in entries:
            member = tarfile.TarInfo(entry.name)
            member.mtime = _MTIME_S
            if entry.link is not None:
                member.type, member.linkname = tarfile.SYMTYPE, entry.link
                tar.addfile(member)
                continue
            member.mode = 0o755 if entry.executable else 0o644
            with _content(entry) as content:
                member.size = content.seek(0, os.SEEK_END)
                content.seek(0)
                tar.addfile(member, content)
            total += member.size
    return total


def _content(entry: ArchiveMember) -> IO[bytes]:
    if entry.source is None:
        return io.BytesIO(entry.content or b"")
    if entry.bytecode:  # its source gets another time in the archive; without this, each node would compile it again
        compiled = entry.source.read_bytes()
        return io.BytesIO(compiled[:8] + struct.pack("<I", _MTIME_S) + compiled[12:])
    return entry.source.open("rb")


class _GzipBlocks:
    """Compresses on all cores: each block becomes a gzip member; gzip and Java read them as one stream."""

    def __init__(self, file: IO[bytes], pool: ThreadPoolExecutor) -> None:
        self._file = file
        self._pool = pool
        self._pending = bytearray()
        self._blocks: deque[Future[bytes]] = deque()
        self._limit = 2 * (os.cpu_count() or 1)

    def write(self, data: bytes) -> int:
        self._pending += data
        if len(self._pending) >= _BLOCK:
            self._submit()
        return len(data)

    def finish(self) -> None:
        """Writes the rest."""
        self._submit()
        while self._blocks:
            self._file.write(self._blocks.popleft().result())

    def _submit(self) -> None:
        block, self._pending = bytes(self._pending), bytearray()
        self._blocks.append(self._pool.submit(_compress, block))
        if len(self._blocks) > self._limit:
            self._file.write(self._blocks.popleft().result())


def _compress(block: bytes) -> bytes:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return compressor.compress(block) + compressor.flush()
