"""Finds the files of an environment that hold credentials and must not reach the nodes' disks."""

from __future__ import annotations

import re
from pathlib import Path

from sparktf.submit.environment_files import ArchiveMember

# Files and folders. Package indexes' passwords stand in pip.conf, and in the address of a clone in .git/config.
_NAMES = re.compile(
    r"\.env(\..+)?|[._]?netrc|\.pypirc|pip\.(conf|ini)|uv\.toml|\.npmrc|\.condarc|\.pgpass|\.git-credentials|"
    r"id_(rsa|dsa|ecdsa|ed25519)|\.(git|hg|svn|ssh|aws|azure|gnupg|docker|kube)"
)
_KEY_STORES = (".keytab", ".p12", ".pfx", ".jks", ".jceks", ".ppk", ".kdbx")
_MAY_HOLD_KEYS = (".pem", ".key", ".json")  # beside keys, certificates of authorities, which clients need
_PRIVATE_KEY = b"PRIVATE KEY-----"
_MAX_KEY_NBYTES = 1 << 20


def without_credentials(entries: list[ArchiveMember]) -> tuple[list[ArchiveMember], tuple[str, ...]]:
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
