"""Makes obstore's client of a container from the keys by which Hadoop's own connectors are configured."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore.store import AzureStore, GCSStore, S3Store

from sparktf.storage.base import Timeouts
from sparktf.storage.objects.container import StoreContainer

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, ObjectStore, RetryConfig, S3Config

_REGION = "us-east-1"  # as the S3 client of Hadoop has it for an endpoint that says none
_REQUEST = timedelta(minutes=10)  # for one request with all its bytes; the next byte is waited for `io_s`
_TRUE = "true"
_AZURE = "dfs.core.windows.net"


def client_of(container: StoreContainer, properties: Mapping[str, str], timeouts: Timeouts) -> ObjectStore:
    """Returns the client of a container; connects to nothing yet.

    Args:
        properties: Hadoop's.
    """
    options: ClientConfig = {
        "allow_http": True,  # what is sent without TLS says `fs.s3a.connection.ssl.enabled`, or the endpoint
        "connect_timeout": timedelta(seconds=timeouts.connect_s),
        "read_timeout": timedelta(seconds=timeouts.io_s),
        "timeout": _REQUEST,
        "user_agent": "sparktf",
    }
    retries: RetryConfig = {
        "max_retries": 100,  # the deadline ends them
        "retry_timeout": timedelta(seconds=timeouts.deadline_s),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=max(0.1, min(5.0, timeouts.deadline_s / 4))),
            "base": 2,
        },
    }
    name = container.name
    if container.kind == "Azure":
        azure = azure_config(container, properties)
        return AzureStore(name, config=azure, client_options=options, retry_config=retries)
    if container.kind == "GCS":
        return GCSStore(name, config=gcs_config(properties), client_options=options, retry_config=retries)
    return S3Store(name, config=s3_config(name, properties), client_options=options, retry_config=retries)


def s3_config(bucket: str, properties: Mapping[str, str]) -> S3Config:
    """Returns the configuration of a bucket by `fs.s3a.<key>`, or where it is there by `fs.s3a.bucket.<bucket>.<key>`.

    Where no keys are there, obstore looks where AWS's own clients do: environment, web identity, container, instance.
    """

    def of(key: str, default: str = "") -> str:
        return properties.get(f"fs.s3a.bucket.{bucket}.{key}") or properties.get(f"fs.s3a.{key}") or default

    config: S3Config = {"region": of("endpoint.region", _REGION)}
    if endpoint := of("endpoint"):
        scheme = "https" if of("connection.ssl.enabled", _TRUE).lower() == _TRUE else "http"
        url = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
        parts = urlsplit(url)
        by_path = of("path.style.access").lower() == _TRUE or _is_address(parts.hostname or "")
        config["virtual_hosted_style_request"] = not by_path
        config["endpoint"] = url if by_path else f"{parts.scheme}://{bucket}.{parts.netloc}"
    if access_key := of("access.key"):
        config["access_key_id"] = access_key
        config["secret_access_key"] = of("secret.key")
        # A bucket's own key has nothing to do with the token of the others' one.
        prefix = f"fs.s3a.bucket.{bucket}." if properties.get(f"fs.s3a.bucket.{bucket}.access.key") else "fs.s3a."
        if token := properties.get(f"{prefix}session.token"):
            config["session_token"] = token
    elif of("aws.credentials.provider").endswith("AnonymousAWSCredentialsProvider"):
        config["skip_signature"] = True
    return config


def azure_config(container: StoreContainer, properties: Mapping[str, str]) -> AzureConfig:
    """Returns the configuration of a container by `fs.azure.<key>.<account's host>`, or by `fs.azure.<key>`."""

    def of(key: str) -> str:
        return properties.get(f"fs.azure.{key}.{container.account}") or properties.get(f"fs.azure.{key}") or ""

    account, _, suffix = container.account.partition(".")
    config: AzureConfig = {"account_name": account}
    if suffix != _AZURE:
        # Another cloud's, whose blobs are beside its files; or an emulator's address: account.127.0.0.1:10000
        scheme = "https" if container.scheme == "abfss" else "http"
        by_path = _is_address(suffix.partition(":")[0])
        host = f"{suffix}/{account}" if by_path else f"{account}.{suffix.replace('dfs.', 'blob.', 1)}"
        config["endpoint"] = f"{scheme}://{host}"
    if account_key := of("account.key"):
        config["account_key"] = account_key
    if sas := of("sas.fixed.token"):
        config["sas_key"] = sas
    if client := of("account.oauth2.client.id"):
        config["client_id"] = client
    if secret := of("account.oauth2.client.secret"):
        config["client_secret"] = secret
        # ".../<tenant>/oauth2/token"
        config["tenant_id"] = urlsplit(of("account.oauth2.client.endpoint")).path.strip("/").partition("/")[0]
    return config


def gcs_config(properties: Mapping[str, str]) -> GCSConfig:
    """Returns the configuration by `fs.gs.auth.service.account.json.keyfile`; else obstore looks where Google's do."""
    keyfile = properties.get("fs.gs.auth.service.account.json.keyfile") or properties.get(
        "google.cloud.auth.service.account.json.keyfile"
    )
    return {"service_account": keyfile} if keyfile else {}


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return host == "localhost"
