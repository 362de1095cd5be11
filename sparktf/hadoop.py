"""The Hadoop configuration: the default file system, and the addresses of NameNodes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import urlsplit
from xml.etree import ElementTree

from pydantic import Field

from sparktf.errors import ConfigError
from sparktf.message import Message

_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")
_REFERENCE = re.compile(r"\$\{([^{}$\s]+)\}")
_EXPANSIONS = 20  # as many as Hadoop makes

HDFS_SCHEMES = ("hdfs", "webhdfs", "swebhdfs")
"""The schemes by which a cluster's HDFS is reached."""

AZURE_SCHEMES = ("abfss", "abfs")
GCS_SCHEMES = ("gs",)
OBJECT_SCHEMES = ("s3a", "s3", *AZURE_SCHEMES, *GCS_SCHEMES)
"""The schemes of object stores."""

VIEWFS = "viewfs"
"""The scheme of paths that a mount table leads to other file systems."""

_OF_SPARK = "spark.hadoop."
_PAIR = "dfs.ha.namenodes."
PROXY_USER = "HADOOP_PROXY_USER"
"""The variable by which Hadoop's clients, and hdfs-native, act as another user than the one who has logged in."""

_RPC_PORT, _HTTP_PORT, _HTTPS_PORT = 8020, 9870, 9871

_UMASK = "fs.permissions.umask-mode"
_OCTAL = re.compile(r"[0-7]{1,4}")
_CLAUSE = re.compile(r"\s*([ugoa]*)([+=-])([rwx]*)\s*")

_FOR_NODES = re.compile(
    r"^(fs\.|dfs\.|ssl\.client\.truststore\.location$|hadoop\.rpc\.protection$|hadoop\.security\.auth(entication|_to_local)$)"
)
_OF_STORES = re.compile(r"^fs\.(s3a|azure|gs)\.")
_SECRET_KEY = re.compile(
    r"passw|secret|token|credential|keytab|\bsas\b|(access|account|private|auth)[._-]?key|\.key$", re.I
)
_SECRET_VALUE = re.compile(r"://[^/\s]*:[^/\s]*@")


class NameNode(NamedTuple):
    """One NameNode: `rpc` is "host:port", `http` the URL below which WebHDFS is."""

    rpc: str
    http: str


class HadoopConf(Message):
    """Properties of Hadoop's configuration files, expanded. They may hold keys: no text form shows them.

    Pickled, as in a closure that Spark sends to executors, it is reduced to `for_nodes`.
    """

    properties: dict[str, str] = Field(default={}, repr=False)

    @classmethod
    def from_folder(cls, folder: str | Path) -> Self:
        """Reads a HADOOP_CONF_DIR: core-site.xml, hdfs-site.xml, yarn-site.xml and ssl-client.xml's truststore, if any.

        Raises:
            ConfigError: there is no such folder, or a file cannot be read or is no Hadoop configuration.
        """
        if not Path(folder).is_dir():
            raise ConfigError(f"HADOOP_CONF_DIR: {folder} does not exist: name the folder of core-site.xml")
        properties: dict[str, str] = {}
        for name in _FILES:
            properties |= _read(Path(folder) / name)
        of_tls = _read(Path(folder) / properties.get("hadoop.ssl.client.conf", "ssl-client.xml"))
        return cls(properties=expand(properties | _truststore(of_tls)))

    @classmethod
    def from_environment(cls, settings: Mapping[str, str] | None = None) -> Self:
        """Reads the folder that HADOOP_CONF_DIR names; empty if unset. Raises as `from_folder`.

        Args:
            settings: Spark's, whose `spark.hadoop.*` win, as in a JVM that is started with them.
        """
        folder = os.environ.get("HADOOP_CONF_DIR")
        found = cls.from_folder(folder) if folder else cls()
        given = {key.removeprefix(_OF_SPARK): v for key, v in (settings or {}).items() if key.startswith(_OF_SPARK)}
        return cls(properties=expand(found.properties | given)) if given else found

    @classmethod
    def from_xml(cls, content: str, ssl_client: str = "<configuration/>") -> Self:
        """Reads the output of a JVM's `Configuration.writeXml` without Hadoop's built-in defaults.

        Args:
            ssl_client: The same of ssl-client.xml, of which the truststore is taken.

        Raises:
            ConfigError: it is no Hadoop configuration.
        """
        try:
            properties = parse_xml(content.encode(), defaults=False)
            return cls(properties=expand(properties | _truststore(parse_xml(ssl_client.encode()))))
        except ElementTree.ParseError as error:
            raise ConfigError(f"the JVM's Hadoop configuration cannot be read: {error}") from error

    @property
    def is_secure(self) -> bool:
        """Whether the cluster wants Kerberos."""
        return self.properties.get("hadoop.security.authentication", "").lower() == "kerberos"

    @property
    def auth_to_local(self) -> str:
        """The rules that make short names of principals; "" for Hadoop's own."""
        return self.properties.get("hadoop.security.auth_to_local", "")

    @property
    def default_fs(self) -> str:
        """The file system of paths without a scheme, e.g. "hdfs://nn:8020"; "file:///" by default."""
        return self.properties.get("fs.defaultFS") or self.properties.get("fs.default.name") or "file:///"

    @property
    def umask(self) -> int:
        """The permissions that new files and folders do not have, as Hadoop's own clients take them.

        Raises:
            ConfigError: the configuration says none.
        """
        said = self.properties.get(_UMASK, "022")
        found = umask_of(said)
        if found is None:
            raise ConfigError(f"{_UMASK}: {said!r} is no umask: write it as 027 or as u=rwx,g=rx,o=")
        return found

    def __reduce__(self) -> tuple[Callable[[dict[str, str]], HadoopConf], tuple[dict[str, str]]]:
        return _of, (self.for_nodes().properties,)

    def for_nodes(self) -> HadoopConf:
        """Returns the properties by which nodes reach the same files, without any that looks like a secret."""
        return HadoopConf(
            properties={
                key: value
                for key, value in self.properties.items()
                if _FOR_NODES.match(key) and not _SECRET_KEY.search(key) and not _SECRET_VALUE.search(value)
            }
        )

    def secrets_of_stores(self) -> dict[str, str]:
        """Returns the properties about object stores that `for_nodes` leaves behind, since they may hold keys."""
        kept = self.for_nodes().properties
        return {key: value for key, value in self.properties.items() if _OF_STORES.match(key) and key not in kept}

    @property
    def name_services(self) -> tuple[str, ...]:
        """The names of all name services."""
        pairs = [key.removeprefix(_PAIR) for key in self.properties if key.startswith(_PAIR)]
        return tuple(dict.fromkeys([*_names(self.properties.get("dfs.nameservices", "")), *pairs]))

    def is_name_service(self, authority: str) -> bool:
        """Whether it is the name of a name service, and no host."""
        properties = self.properties
        return authority in _names(properties.get("dfs.nameservices", "")) or f"{_PAIR}{authority}" in properties

    def cluster_of(self, authority: str) -> str:
        """Returns one name for a cluster, whichever port, protocol or NameNode of it is named: its service, or host."""
        if self.is_name_service(authority):
            return authority
        host = authority.rpartition("@")[2].partition(":")[0].lower()
        for service in self.name_services:
            with suppress(ConfigError):
                if any(node.rpc.partition(":")[0].lower() == host for node in self.namenodes(service)):
                    return service
        return host

    def namenodes(self, authority: str, scheme: str = "") -> tuple[NameNode, ...]:
        """Returns the NameNodes of "host", "host:port" or a name service, in the configured order.

        Args:
            scheme: "http" or "https", of `NameNode.http`; by default what `dfs.http.policy` says.

        Raises:
            ConfigError: the name service is configured in part only.
        """
        properties = self.properties
        if self.is_name_service(authority):
            ids = _names(properties.get(f"{_PAIR}{authority}", ""))
            suffixes = [f".{authority}.{name}" for name in ids] or [f".{authority}"]
            return tuple(self._namenode(suffix, authority, scheme) for suffix in suffixes)
        rpc = authority if _port(authority) else f"{authority}:{_RPC_PORT}"
        for suffix in self._suffixes():
            if properties.get(f"dfs.namenode.rpc-address{suffix}") == rpc:
                return (NameNode(rpc, self._http(suffix, rpc, scheme)),)
        # An address that no key is about is a NameNode with Hadoop's usual ports.
        own = "" if "dfs.namenode.rpc-address" not in properties and self._is_default(rpc) else None
        return (NameNode(rpc, self._http(own, rpc, scheme)),)

    def _namenode(self, suffix: str, authority: str, scheme: str) -> NameNode:
        rpc = self.properties.get(f"dfs.namenode.rpc-address{suffix}")
        if not rpc:
            key = f"dfs.namenode.rpc-address{suffix}"
            raise ConfigError(f"hdfs://{authority}: the Hadoop configuration has no {key}: add it to hdfs-site.xml")
        return NameNode(rpc, self._http(suffix, rpc, scheme))

    def _http(self, suffix: str | None, rpc: str, scheme: str) -> str:
        """Returns the URL of a NameNode's web server; by default the usual port at the host of its RPC address."""
        secure = self.properties.get("dfs.http.policy", "").upper() == "HTTPS_ONLY"
        scheme = scheme or ("https" if secure else "http")
        default = _HTTPS_PORT if scheme == "https" else _HTTP_PORT
        found = "" if suffix is None else self.properties.get(f"dfs.namenode.{scheme}-address{suffix}", "")
        host, _, port = found.rpartition(":")
        if host in ("", "0.0.0.0"):
            host = rpc.rpartition(":")[0]
        return f"{scheme}://{host}:{port or default}"

    def _suffixes(self) -> Iterator[str]:
        prefix = "dfs.namenode.rpc-address"
        yield from (key.removeprefix(prefix) for key in self.properties if key.startswith(prefix))

    def _is_default(self, rpc: str) -> bool:
        authority = urlsplit(self.default_fs).netloc
        return rpc in (authority, f"{authority}:{_RPC_PORT}")


def _of(properties: dict[str, str]) -> HadoopConf:
    return HadoopConf(properties=properties)


def _read(file: Path) -> dict[str, str]:
    """Returns the properties of a file; none if it does not exist."""
    if not file.exists():
        return {}
    try:
        return parse_xml(file.read_bytes())
    except (OSError, ElementTree.ParseError) as error:
        raise ConfigError(f"{file} cannot be read as a Hadoop configuration: {error}: mend it") from error


def _truststore(of_tls: dict[str, str]) -> dict[str, str]:
    """Returns the properties of the truststore; a client's own key, beside it, is nobody else's."""
    return {key: value for key, value in of_tls.items() if key.startswith("ssl.client.truststore.") and value}


def parse_xml(content: bytes, *, defaults: bool = True) -> dict[str, str]:
    """Returns the properties of a configuration file, not expanded.

    Args:
        defaults: Include properties whose `<source>` is one of Hadoop's built-in files.

    Raises:
        ElementTree.ParseError: it is no XML.
    """
    properties: dict[str, str] = {}
    for element in ElementTree.fromstring(content).iter("property"):
        name, value = element.findtext("name"), element.findtext("value")
        sources = [source.text or "" for source in element.findall("source")]
        if name and value is not None and (defaults or not (sources and sources[-1].endswith("-default.xml"))):
            properties[name.strip()] = value.strip()
    return properties


def expand(properties: dict[str, str]) -> dict[str, str]:
    """Returns the properties with `${other.key}` replaced; unknown names are kept."""

    def expanded(value: str) -> str:
        for _ in range(_EXPANSIONS):
            replaced = _REFERENCE.sub(lambda found: properties.get(found.group(1), found.group(0)), value)
            if replaced == value:
                break
            value = replaced
        return value

    return {key: expanded(value) for key, value in properties.items()}


def act_as(user: str | None) -> None:
    """Has this process, and those that it starts, act as another user from now on; None changes nothing."""
    if user is not None:
        os.environ[PROXY_USER] = user


def umask_of(text: str) -> int | None:
    """Returns the umask that a text says: "027", or what is left to each, "u=rwx,g=rx,o="; None if it says none."""
    if _OCTAL.fullmatch(text):
        return int(text, 8) & 0o777
    left = dict.fromkeys("ugo", 0)
    for clause in text.split(","):
        found = _CLAUSE.fullmatch(clause)
        if found is None:
            return None
        who, how, what = found.groups()
        # As in Hadoop, the last word about each counts, and "-" leaves nothing.
        bits = 0 if how == "-" else sum({"r": 4, "w": 2, "x": 1}[letter] for letter in set(what))
        left |= dict.fromkeys(who.replace("a", "ugo") or "ugo", bits)
    return ~(left["u"] << 6 | left["g"] << 3 | left["o"]) & 0o777


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _port(authority: str) -> str:
    return authority.rpartition(":")[2] if ":" in authority else ""
