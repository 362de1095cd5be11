"""The driver's secrets of object stores, which it hands to the nodes; see `sparktf.storage.store_keys`."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sparktf.driver.gang.site import Handler
from sparktf.driver.spark.jvm_store_keys import (
    PROVIDERS,
    BucketCredentials,
    has_s3a,
    provided_secrets,
    provided_to_command,
)
from sparktf.errors import PreflightError
from sparktf.hadoop import HadoopConf
from sparktf.knobs import KNOBS
from sparktf.message import Message
from sparktf.storage.credentials import own_token_path, write_token_file
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.store_keys import (
    STORE_KEYS,
    STORE_KEYS_FILE,
    environment_keys,
    key_file,
    keys_edition,
    of_container,
    profile_keys,
)
from sparktf.told import line_of_error
from sparktf.wire.control import Action, AgentHeartbeat

_CHAIN = "aws.credentials.provider"
_OWN_PROVIDERS = "security.credential.provider.path"


def _nothing(bucket: str) -> dict[str, str]:
    del bucket
    return {}


_OF_CONFIGURATION = ("SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider")
_KNOWN: Mapping[str, Callable[[str], dict[str, str]]] = {
    "SimpleAWSCredentialsProvider": _nothing,
    "TemporaryAWSCredentialsProvider": _nothing,
    "AnonymousAWSCredentialsProvider": _nothing,
    # Each node asks its own instance or container.
    "IAMInstanceCredentialsProvider": _nothing,
    "InstanceProfileCredentialsProvider": _nothing,
    "EC2ContainerCredentialsProviderWrapper": _nothing,
    "ContainerCredentialsProvider": _nothing,
    "EnvironmentVariableCredentialsProvider": environment_keys,
    "ProfileAWSCredentialsProvider": profile_keys,
    "ProfileCredentialsProvider": profile_keys,
}
"""Class, without packages -> the keys that it gives besides those of the configuration. Others are the JVM's alone."""


class _FoundKeys:
    """The secrets of stores that a configuration, its credential providers and its user's environment have."""

    def __init__(self, hadoop: HadoopConf) -> None:
        self._hadoop = hadoop
        self._lock = threading.RLock()
        self._provided: dict[str, Mapping[str, str]] = {}
        self._found: dict[str, Mapping[str, str]] = {}

    def properties(self, store: str) -> Mapping[str, str]:
        """See `StoreKeys`.

        Raises:
            PreflightError: a credential provider cannot be read, or has no keys.
        """
        with self._lock:
            if store not in self._found:
                try:
                    self._found[store] = self._look(store)
                except (Py4JError, OSError) as error:
                    reason = line_of_error(error)
                    raise PreflightError(f"{store}: the credential providers give no keys: {reason}") from error
            return self._found[store]

    def edition(self) -> str:
        return ""

    def _look(self, store: str) -> Mapping[str, str]:
        scheme, _, authority = store.partition("://")
        is_s3 = scheme in ("s3a", "s3")
        paths = [self._of_s3a(authority, _OWN_PROVIDERS)] if is_s3 else []
        path = ",".join(filter(None, [*paths, self._hadoop.properties.get(PROVIDERS, "")]))
        if path and path not in self._provided:
            self._provided[path] = self._read_providers(path)
        secrets = {**self._hadoop.secrets_of_stores(), **self._provided.get(path, {})}
        own = of_container(secrets, scheme, authority)
        return {**own, **self._of_bucket(authority, own)} if is_s3 else own

    def _of_bucket(self, bucket: str, own: Mapping[str, str]) -> Mapping[str, str]:
        """Returns the keys of a bucket that its chain of providers gives; {} where those of the configuration count."""
        said = self._of_s3a(bucket, _CHAIN)
        chain = [name.strip().rpartition(".")[2] for name in said.split(",") if name.strip()]
        if any(name not in _KNOWN for name in chain):
            return self._ask_classes(bucket)
        has_keys = own.get(f"fs.s3a.bucket.{bucket}.access.key") or own.get("fs.s3a.access.key")
        for name in chain or ["SimpleAWSCredentialsProvider", "EnvironmentVariableCredentialsProvider"]:
            if name in _OF_CONFIGURATION and has_keys:
                return {}
            if found := _KNOWN[name](bucket):
                return found
        return {}

    def _of_s3a(self, bucket: str, key: str) -> str:
        properties = self._hadoop.properties
        return properties.get(f"fs.s3a.bucket.{bucket}.{key}") or properties.get(f"fs.s3a.{key}") or ""

    def _read_providers(self, path: str) -> Mapping[str, str]:
        raise NotImplementedError

    def _ask_classes(self, bucket: str) -> Mapping[str, str]:
        """Returns the keys that classes give which only a JVM with S3A can load; {} without one."""
        del bucket
        return {}


class CommandKeys(_FoundKeys):
    """See `StoreKeys`: those of a command, which has HADOOP_CONF_DIR and no session; thread-safe."""

    def _read_providers(self, path: str) -> Mapping[str, str]:
        return provided_to_command(os.environ.get("HADOOP_CONF_DIR", ""), path)


class DriverKeys(_FoundKeys):
    """See `StoreKeys`: those of the driver, whose JVM may have S3A; thread-safe.

    They are in a file of this process's own, too, for the processes that it starts: they find it by `STORE_KEYS_FILE`.
    """

    def __init__(self, spark: SparkSession, hadoop: HadoopConf, now_s: Callable[[], float]) -> None:
        """Asks nobody yet.

        Args:
            now_s: A clock, in seconds.
        """
        super().__init__(hadoop)
        self._spark = spark
        self._now_s = now_s
        self._buckets: dict[str, BucketCredentials] = {}
        self._looked_s = float("-inf")
        self._path = Path(own_token_path(self)).with_name(STORE_KEYS)
        self._written = b""

    def properties(self, store: str) -> Mapping[str, str]:
        with self._lock:
            found = super().properties(store)
            self._write()
            return found

    def edition(self) -> str:
        with self._lock:
            if self._now_s() - self._looked_s >= KNOBS.token_poll_s:
                self._looked_s = self._now_s()
                for store in list(self._found):
                    # Where none can be had now, the present ones may hold on; if not, the store says so.
                    with suppress(Py4JError, OSError):
                        self._found[store] = self._look(store)
                self._write()
            return keys_edition(key_file(_joined(self._found)))

    def content(self, stores: list[str]) -> bytes:
        """Returns the present secrets of some stores: a file of them, for the nodes."""
        self.edition()
        return key_file(_joined({store: self.properties(store) for store in stores}))

    def _write(self) -> None:
        content = key_file(_joined(self._found))
        if content != self._written:
            write_token_file(self._path, content)
            self._written = content
            os.environ[STORE_KEYS_FILE] = str(self._path)

    def _read_providers(self, path: str) -> Mapping[str, str]:
        return provided_secrets(self._spark, path)

    def _ask_classes(self, bucket: str) -> Mapping[str, str]:
        if not has_s3a():
            return {}
        if bucket not in self._buckets:
            self._buckets[bucket] = BucketCredentials(self._spark, bucket)
        return self._buckets[bucket].present()


def _joined(found: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    return {key: value for store in sorted(found) for key, value in found[store].items()}


def keys_for_job(systems: FileSystems) -> bytes:
    """Returns the present secrets of the stores in use: a file of them; b"" without any."""
    stores = systems.stores()
    return systems.keys.content(stores) if isinstance(systems.keys, DriverKeys) and stores else b""


def handing_keys(systems: FileSystems, handlers: Mapping[Action, Handler]) -> Mapping[Action, Handler]:
    """Returns handlers that answer an agent's heartbeat with the present secrets of the stores in use, too."""
    beat = handlers.get(Action.AGENT_HEARTBEAT)
    if not isinstance(systems.keys, DriverKeys) or beat is None:
        return handlers

    def answer(message: AgentHeartbeat) -> Message:
        orders, content = beat.answer(message), keys_for_job(systems)
        if keys_edition(content) == message.store_keys:
            return orders
        return orders.model_copy(update={"store_keys": base64.b64encode(content).decode()})

    return {**handlers, Action.AGENT_HEARTBEAT: Handler(AgentHeartbeat, answer)}
