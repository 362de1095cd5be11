"""Secrets of object stores: properties of Hadoop's configuration that `HadoopConf.for_nodes` leaves behind.

The driver has them all: in its configuration, in Hadoop's credential providers, or by what its user has been given for
some hours. To the nodes it hands those of the stores that a run reads or writes, as it hands delegation tokens: each
executor has the newest ones in a file of mode 0600 in the folder that Spark gives it, read again when it changes.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from sparktf.hadoop import AZURE_SCHEMES
from sparktf.storage.credentials import write_token_file
from sparktf.storage.reread import RereadFile

STORE_KEYS = "sparktf-store-keys"
"""Name of the file with a run's newest secrets in an executor's local folder."""

STORE_KEYS_FILE = "SPARKTF_STORE_KEYS"
"""The variable by which a process finds such a file elsewhere."""


_OAUTH = ("ClientCredsTokenProvider", "MsiTokenProvider", "WorkloadIdentityTokenProvider")


class StoreKeys(Protocol):
    """The secrets of object stores; asked for each request, since they end and are replaced."""

    def properties(self, store: str) -> Mapping[str, str]:
        """Returns the present ones, by Hadoop's names of them.

        Args:
            store: The scheme and authority of its paths: "s3a://bucket". Others may be among them.
        """

    def edition(self) -> str:
        """Returns a text that changes with them, and tells nothing of them."""


class GivenKeys:
    """See `StoreKeys`: those of a mapping, which stay as they are. No text form shows them."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)

    def properties(self, store: str) -> Mapping[str, str]:
        del store
        return self._properties

    def edition(self) -> str:
        return ""


class FileKeys:
    """See `StoreKeys`: those of a file, read again when it changes; none while there is none. Thread-safe."""

    def __init__(self, places: Sequence[Path]) -> None:
        """Reads nothing yet.

        Args:
            places: Files, of which the first that exists is read.
        """
        self._file = RereadFile[Mapping[str, str]](places, parse_keys, {})

    def properties(self, store: str) -> Mapping[str, str]:
        del store
        return self._file.read()[1]

    def edition(self) -> str:
        return self._file.read()[0]


def keys_here() -> StoreKeys:
    """Returns the secrets that this process was handed; an edge node's own stand in its configuration."""
    places = [Path(local, STORE_KEYS) for local in os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[:1] if local]
    return FileKeys([*places, *(Path(given) for given in [os.environ.get(STORE_KEYS_FILE)] if given)])


def key_file(properties: Mapping[str, str]) -> bytes:
    """Returns the content of a file of secrets; b"" without any."""
    return json.dumps(dict(properties), sort_keys=True).encode() if properties else b""


def keys_in(path: Path) -> Mapping[str, str]:
    """Returns the secrets of a file; {} if it is not there, or is none."""
    try:
        return parse_keys(path.read_bytes())
    except (OSError, ValueError):
        return {}


def parse_keys(content: bytes) -> Mapping[str, str]:
    """Returns the secrets of a file.

    Raises:
        ValueError: it is none.
    """
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("it is no file of secrets")  # without its content
    return {str(key): str(value) for key, value in found.items()}


def keys_edition(content: bytes) -> str:
    """Returns a text that tells a file of secrets from others, and nothing of its content."""
    return hashlib.sha256(content).hexdigest()[:16] if content else ""


class HandedKeys:
    """The newest secrets of an executor, in a file that `keys_here` finds.

    Attributes:
        edition: `keys_edition` of them; "" before there are any.
    """

    def __init__(self, folder: Path) -> None:
        """Writes nothing yet; `folder` is deleted with the executor."""
        self._path = folder / STORE_KEYS
        self.edition = ""

    def take(self, content: bytes) -> None:
        """Keeps a file of secrets.

        Raises:
            OSError: it cannot be written.
        """
        write_token_file(self._path, content)
        self.edition = keys_edition(content)


def of_container(properties: Mapping[str, str], scheme: str, authority: str) -> dict[str, str]:
    """Returns the properties that may matter to a container: no other bucket's or account's."""
    account = authority.partition("@")[2]
    ours = {"s3a": "fs.s3a.", "s3": "fs.s3a.", "abfs": "fs.azure.", "abfss": "fs.azure.", "gs": "fs.gs."}[scheme]
    bucket = f"fs.s3a.bucket.{authority}."
    return {
        key: value
        for key, value in properties.items()
        if key.startswith(ours)
        and (not key.startswith("fs.s3a.bucket.") or key.startswith(bucket))
        and (not account or ".core." not in key or key.endswith(f".{account}"))
    }


def only_hadoops(properties: Mapping[str, str], scheme: str, authority: str) -> str:
    """Returns why Hadoop's own connector alone can read a container, for a sentence's end; "" if others can.

    Args:
        properties: Hadoop's.
    """

    def of(prefix: str, *keys: str) -> str:
        account = authority.partition("@")[2]
        named = [f"{prefix}bucket.{authority}.{key}" for key in keys] + [f"{prefix}{key}.{account}" for key in keys]
        return next(filter(None, map(properties.get, [*named, *(f"{prefix}{key}" for key in keys)])), "")

    if scheme in ("s3a", "s3"):
        algorithm = of("fs.s3a.", "encryption.algorithm", "server-side-encryption-algorithm").upper()
        if algorithm == "SSE-C" or algorithm.startswith("CSE"):
            return f"its objects are encrypted by {algorithm}, with a key that the client has"
    if scheme in AZURE_SCHEMES:
        kind = of("fs.azure.", "account.auth.type")
        provider = of("fs.azure.", "account.oauth.provider.type").rpartition(".")[2]
        if kind and kind.lower() not in ("sharedkey", "oauth", "sas"):
            return f"fs.azure.account.auth.type is {kind}"
        if kind.lower() == "sas" and not of("fs.azure.", "sas.fixed.token"):
            return "its SAS comes from fs.azure.sas.token.provider.type"
        if kind.lower() == "oauth" and provider and provider not in _OAUTH:
            return f"fs.azure.account.oauth.provider.type is {provider}"
    return ""


def profile_keys(bucket: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the keys of the user's profile for AWS's own tools, as properties of a bucket; {} if there is none."""
    place = environment.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.expanduser("~/.aws/credentials")
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with open(place, encoding="utf-8") as file:
            parser.read_file(file)
    except (OSError, configparser.Error, UnicodeDecodeError):
        return {}
    profile = environment.get("AWS_PROFILE", "default")
    found = dict(parser[profile]) if profile in parser else {}
    return _as_properties(bucket, found.get)


def environment_keys(bucket: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the keys that the environment has for AWS's own tools, as properties of a bucket; {} without any."""
    return _as_properties(bucket, lambda name: environment.get(name.upper()))


def _as_properties(bucket: str, of: Callable[[str], str | None]) -> dict[str, str]:
    access, secret, token = (of(name) for name in ("aws_access_key_id", "aws_secret_access_key", "aws_session_token"))
    return {} if not (access and secret) else bucket_keys(bucket, access, secret, token or "")


def bucket_keys(bucket: str, access: str, secret: str, token: str = "") -> dict[str, str]:
    """Returns the keys of a bucket as properties of Hadoop's. Without a token, another one does not apply."""
    prefix = f"fs.s3a.bucket.{bucket}."
    return {f"{prefix}access.key": access, f"{prefix}secret.key": secret, f"{prefix}session.token": token}
