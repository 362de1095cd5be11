"""HTTPS beside HTTP: one certificate for all hosts, and a truststore of Java's that has it, as vendors' clusters have.

Whoever is on the edge finds in its configuration that the cluster speaks HTTPS alone.
"""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path

from minihadoop.config import SERVICE, ClusterConfig, Host
from minihadoop.environment import java_home
from minihadoop.errors import CommandError
from minihadoop.layout import ClusterFolder
from minihadoop.secure_conf import Value

NAMENODE_HTTPS_PORT = 9871
_ALIAS = "minihadoop"


def create_certificates(config: ClusterConfig, folder: ClusterFolder) -> None:
    """Makes the key of all hosts, and the truststore, with a password that only files of the cluster's folder have.

    Raises:
        CommandError: keytool failed.
    """
    place = folder.tls
    place.mkdir(mode=0o700)
    _password(folder).write_text(secrets.token_hex(16), encoding="ascii")
    names = ",".join(f"dns:{host.fqdn}" for host in config.all_hosts)
    certificate = ["-dname", "CN=minihadoop", "-ext", f"san={names}", "-validity", "365", "-keyalg", "RSA"]
    _keytool(folder, "-genkeypair", *certificate, *_store(place / "key.p12", "PKCS12"))
    _keytool(folder, "-exportcert", "-rfc", "-file", str(folder.certificate), *_store(place / "key.p12", "PKCS12"))
    _keytool(folder, "-importcert", "-noprompt", "-file", str(folder.certificate), *_store(_truststore(folder), "JKS"))


def core_files(folder: ClusterFolder) -> dict[str, dict[str, Value]]:
    """Returns ssl-server.xml and ssl-client.xml."""
    password = _password(folder).read_text(encoding="ascii")
    key: dict[str, Value] = {
        "location": folder.tls / "key.p12",
        "password": password,
        "keypassword": password,
        "type": "PKCS12",
    }
    trust: dict[str, Value] = {"location": _truststore(folder), "password": password, "type": "jks"}
    return {
        "ssl-server.xml": {
            **{f"ssl.server.keystore.{name}": value for name, value in key.items()},
            **{f"ssl.server.truststore.{name}": value for name, value in trust.items()},
        },
        "ssl-client.xml": {f"ssl.client.truststore.{name}": value for name, value in trust.items()},
    }


def hdfs(config: ClusterConfig, host: Host) -> dict[str, Value]:
    """Returns the properties of hdfs-site.xml."""
    key, pair = "dfs.namenode.https-address", config.namenodes > 1
    return {
        # This package itself asks by HTTP.
        "dfs.http.policy": "HTTPS_ONLY" if host == config.edge else "HTTP_AND_HTTPS",
        **{
            f"{key}.{SERVICE}.{node.name}" if pair else key: f"{node.fqdn}:{NAMENODE_HTTPS_PORT}"
            for node in config.name_hosts
        },
    }


def _truststore(folder: ClusterFolder) -> Path:
    return folder.tls / "truststore.jks"


def _password(folder: ClusterFolder) -> Path:
    return folder.tls / "password"


def _store(file: Path, kind: str) -> list[str]:
    return ["-keystore", str(file), "-storetype", kind]


def _keytool(folder: ClusterFolder, *arguments: str) -> None:
    tool = [str(java_home() / "bin/keytool"), "-J-XX:TieredStopAtLevel=1"]
    command = [*tool, *arguments, "-alias", _ALIAS, "-storepass:file", str(_password(folder))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CommandError(
            f"keytool {arguments[0]}, exit code {done.returncode}: {(done.stdout + done.stderr).strip()}"
        )
