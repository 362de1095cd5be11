"""The driver's secrets of object stores, which it hands to the nodes; see `sparktf.storage.store_keys`."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Mapping

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from sparktf.driver.gang.site import Handler
from sparktf.driver.spark.jvm_store_keys import BucketCredentials, has_s3a, provided_secrets
from sparktf.errors import PreflightError
from sparktf.hadoop import HadoopConf
from sparktf.knobs import KNOBS
from sparktf.message import Message
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.store_keys import (
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


class DriverKeys:
    """See `StoreKeys`: all that the driver's configuration, its JVM and its user's environment have; thread-safe."""

    def __init__(self, spark: SparkSession, hadoop: HadoopConf, now_s: Callable[[], float]) -> None:
        """Asks nobody yet.

        Args:
            now_s: A clock, in seconds.
        """
        self._spark = spark
        self._hadoop = hadoop
        self._now_s = now_s
        self._lock = threading.RLock()
        self._provided: Mapping[str, str] | None = None
        self._buckets: dict[str, BucketCredentials] = {}
        self._found: dict[str, Mapping[str, str]] = {}
        self._looked_s = float("-inf")

    def properties(self, store: str) -> Mapping[str, str]:
        """See `StoreKeys`.

        Raises:
            PreflightError: a credential provider cannot be read, or has no keys.
        """
        with self._lock:
            if store not in self._found:
                try:
                    self._found[store] = self._look(store)
                except Py4JError as error:
                    raise PreflightError(
                        f"{store}: the credential providers give no keys: {line_of_error(error)}"
                    ) from error
            return self._found[store]

    def edition(self) -> str:
        with self._lock:
            if self._now_s() - self._looked_s >= KNOBS.token_poll_s:
                self._looked_s = self._now_s()
                for store in list(self._found):
                    # Where none can be had now, the present ones may hold on; if not, the store says so.
                    try:
                        self._found[store] = self._look(store)
                    except (Py4JError, OSError):
                        continue
            return keys_edition(key_file(self._joined(self._found)))

    def content(self, stores: list[str]) -> bytes:
        """Returns the present secrets of some stores: a file of them, for the nodes."""
        self.edition()
        return key_file(self._joined({store: self.properties(store) for store in stores}))

    def _joined(self, found: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        return {key: value for store in sorted(found) for key, value in found[store].items()}

    def _look(self, store: str) -> Mapping[str, str]:
        scheme, _, authority = store.partition("://")
        if self._provided is None:
            paths = [self._of_s3a(authority, _OWN_PROVIDERS) if scheme in ("s3a", "s3") else ""]
            self._provided = provided_secrets(self._spark, paths)
        own = of_container({**self._hadoop.secrets_of_stores(), **self._provided}, scheme, authority)
        return own if scheme not in ("s3a", "s3") else {**own, **self._of_bucket(authority, own)}

    def _of_bucket(self, bucket: str, own: Mapping[str, str]) -> Mapping[str, str]:
        """Returns the keys of a bucket that its chain of providers gives; {} where those of the configuration count."""
        said = self._of_s3a(bucket, _CHAIN)
        chain = [name.strip().rpartition(".")[2] for name in said.split(",") if name.strip()]
        if not chain:
            has_keys = own.get(f"fs.s3a.bucket.{bucket}.access.key") or own.get("fs.s3a.access.key")
            return {} if has_keys else environment_keys(bucket)
        if all(name in _KNOWN for name in chain):
            for name in chain:
                if found := _KNOWN[name](bucket):
                    return found
            return {}
        if not has_s3a():
            return {}
        if bucket not in self._buckets:
            self._buckets[bucket] = BucketCredentials(self._spark, bucket)
        return self._buckets[bucket].present()

    def _of_s3a(self, bucket: str, key: str) -> str:
        properties = self._hadoop.properties
        return properties.get(f"fs.s3a.bucket.{bucket}.{key}") or properties.get(f"fs.s3a.{key}") or ""


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
