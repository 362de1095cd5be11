"""Hadoop's configuration on a secured cluster: Kerberos everywhere, privacy on RPC and on blocks, tokens for blocks."""

from __future__ import annotations

from pathlib import Path

from minihadoop.config import EDGE, MASTER, Host
from minihadoop.kerberos import GROUPS, REALM, SHORT_NAMES
from minihadoop.layout import ClusterFolder

Value = str | int | float | bool | Path

_SERVICES = (("nn", "hdfs"), ("dn", "hdfs"), ("rm", "yarn"), ("nm", "yarn"))
_FILTER = "org.apache.hadoop.security.AuthenticationFilterInitializer"


def core(folder: ClusterFolder, host: Host) -> dict[str, Value]:
    """Returns the properties of core-site.xml that a secured cluster has."""
    rules = [f"RULE:[2:$1@$0]({service}@{REALM})s/.*/{user}/" for service, user in _SERVICES]
    rules += [f"RULE:[1:$1@$0]({user}@{REALM})s/.*/{name}/" for user, name in SHORT_NAMES.items()]
    of_http = "hadoop.http.authentication"
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": True,
        "hadoop.rpc.protection": "privacy",
        "hadoop.security.auth_to_local": " ".join([*rules, "DEFAULT"]),
        # So that no user need be known to the machine.
        "hadoop.user.group.static.mapping.overrides": GROUPS,
        "hadoop.http.filter.initializers": _FILTER,
        f"{of_http}.type": "kerberos",
        f"{of_http}.simple.anonymous.allowed": False,
        f"{of_http}.signature.secret.file": folder.kerberos / "http-secret",
        f"{of_http}.kerberos.principal": f"HTTP/_HOST@{REALM}",
        f"{of_http}.kerberos.keytab": _keytab(folder, "HTTP", host),
        "hadoop.proxyuser.yarn.hosts": "*",
        "hadoop.proxyuser.yarn.users": "alice,bob",
        "hadoop.proxyuser.root.hosts": "*",
        "hadoop.proxyuser.root.users": "alice,bob",
        "hadoop.proxyuser.etl.hosts": "*",
        "hadoop.proxyuser.etl.users": "alice",
    }


def hdfs(folder: ClusterFolder, host: Host) -> dict[str, Value]:
    """Returns the properties of hdfs-site.xml."""
    return {
        "dfs.block.access.token.enable": True,
        "dfs.data.transfer.protection": "privacy",
        "dfs.encrypt.data.transfer.cipher.suites": "AES/CTR/NoPadding",
        "dfs.http.policy": "HTTP_ONLY",
        # A DataNode wants TLS, or ports that only root opens, unless told that this is a test.
        "ignore.secure.ports.for.testing": True,
        "dfs.namenode.kerberos.principal": f"nn/_HOST@{REALM}",
        "dfs.namenode.keytab.file": _keytab(folder, "nn", host),
        "dfs.namenode.kerberos.internal.spnego.principal": f"HTTP/_HOST@{REALM}",
        "dfs.datanode.kerberos.principal": f"dn/_HOST@{REALM}",
        "dfs.datanode.keytab.file": _keytab(folder, "dn", host),
        "dfs.web.authentication.kerberos.principal": f"HTTP/_HOST@{REALM}",
        "dfs.web.authentication.kerberos.keytab": _keytab(folder, "HTTP", host),
        # With it, a client without a ticket would wait instead of saying so.
        "dfs.client.retry.policy.enabled": False,
    }


def yarn(folder: ClusterFolder, host: Host) -> dict[str, Value]:
    """Returns the properties of yarn-site.xml."""
    found: dict[str, Value] = {}
    for daemon, service in (("resourcemanager", "rm"), ("nodemanager", "nm")):
        found |= {
            f"yarn.{daemon}.principal": f"{service}/_HOST@{REALM}",
            f"yarn.{daemon}.keytab": _keytab(folder, service, host),
            f"yarn.{daemon}.webapp.spnego-principal": f"HTTP/_HOST@{REALM}",
            f"yarn.{daemon}.webapp.spnego-keytab-file": _keytab(folder, "HTTP", host),
        }
    return {
        **found,
        "yarn.acl.enable": True,
        "yarn.admin.acl": "yarn,hdfs,root",
        "yarn.nodemanager.container-executor.class": (
            "org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor"
        ),
        # It needs Hadoop's native library: without, the first application that ends takes the NodeManagers with it.
        "yarn.log-aggregation-enable": False,
    }


def _keytab(folder: ClusterFolder, service: str, host: Host) -> Path:
    return folder.keytab(service, MASTER if host.name == EDGE else host.name)
