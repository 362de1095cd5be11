"""Which container of which store a path is in: a bucket of S3 or GCS, or an account's container on Azure."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from sparktf.errors import ConfigError
from sparktf.hadoop import AZURE_SCHEMES, GCS_SCHEMES


class StoreContainer(NamedTuple):
    """A container of objects, as the scheme and authority of its paths name it."""

    scheme: str  # "s3a", "s3", "abfss", "abfs" or "gs"
    name: str  # Of the bucket, or of Azure's container
    account: str = ""  # Azure's: the host, "<account>.dfs.core.windows.net"

    @property
    def kind(self) -> str:
        """The store's protocol: "S3", "Azure" or "GCS"."""
        return "Azure" if self.scheme in AZURE_SCHEMES else "GCS" if self.scheme in GCS_SCHEMES else "S3"


def container_of(url: str) -> StoreContainer:
    """Returns the container of "<scheme>://<authority>", or of any path below it.

    Raises:
        ConfigError: the authority names no container.
    """
    scheme, authority = (parts := urlsplit(url)).scheme, parts.netloc
    if scheme not in AZURE_SCHEMES:
        return StoreContainer(scheme, authority)
    name, at, account = authority.partition("@")
    if not (at and name and account):
        raise ConfigError(f"{url}: names no container and account: write {scheme}://<container>@<account>.dfs.core...")
    return StoreContainer(scheme, name, account)
