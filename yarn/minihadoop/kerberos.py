"""Kerberos of a secured cluster: its realm, its key distribution centre (KDC), and the principals with their keytabs.

All of it lies in the cluster's folder. Users are principals alone: the machine need not know them.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from pathlib import Path

from minihadoop.config import ClusterConfig, Host
from minihadoop.errors import CommandError
from minihadoop.krb5 import Krb5
from minihadoop.layout import ClusterFolder

REALM = "MINIHADOOP.TEST"
KDC_PORT = 88
# root is HDFS's superuser, as on a cluster without Kerberos.
USERS = ("root", "alice", "bob", "etl-svc")
SHORT_NAMES = {"etl-svc": "etl"}
"""Users whose short name is not the first part of their principal: `hadoop.security.auth_to_local` says so."""

GROUPS = "hdfs=root;yarn=hadoop;root=root;alice=users;bob=users;etl=users;HTTP=hadoop"
_OF_MASTER = ("nn", "rm", "HTTP")
_OF_NAMENODE = ("nn", "HTTP")
_OF_WORKER = ("dn", "nm", "HTTP")


def services(config: ClusterConfig, host: Host) -> tuple[str, ...]:
    """Returns the services that have a principal on a host."""
    if host == config.master:
        return _OF_MASTER
    return _OF_NAMENODE if host in config.name_hosts else _OF_WORKER if host in config.workers else ()


def create_realm(config: ClusterConfig, folder: ClusterFolder, krb5: Krb5) -> None:
    """Makes the realm's files, its database, and a keytab for each service and user; needs no network.

    Raises:
        CommandError: A program of MIT Kerberos failed.
    """
    place = folder.kerberos
    folder.tickets.mkdir(parents=True, mode=0o700)
    (place / "keytabs").mkdir(mode=0o700)
    _write(place / "http-secret", secrets.token_hex(16))
    _write(place / "krb5.conf", _krb5_conf(config))
    _write(place / "kdc.conf", _kdc_conf(config, place, krb5))
    variables = kdc_environment(folder, krb5)
    # -W: does not wait for entropy.
    create = [krb5.program("kdb5_util"), "create", "-r", REALM, "-s", "-W", "-P", secrets.token_hex(16)]
    _run(create, variables)
    lines = []
    for host in (*config.name_hosts, *config.workers):
        for service in services(config, host):
            name = f"{service}/{host.fqdn}"
            lines += [f"addprinc -randkey {name}", f"ktadd -k {folder.keytab(service, host.name)} {name}"]
    for user in USERS:
        lines += [f"addprinc -randkey {user}", f"ktadd -k {folder.keytab(user)} {user}"]
    _run([krb5.program("kadmin.local"), "-r", REALM], variables, "\n".join([*lines, "quit", ""]))


def kdc_command(krb5: Krb5) -> list[str]:
    """Returns the command of the KDC."""
    return [krb5.program("krb5kdc"), "-n", "-r", REALM]


def kdc_environment(folder: ClusterFolder, krb5: Krb5) -> dict[str, str]:
    """Returns the environment of the KDC, and of the programs that change its database."""
    profiles = {"KRB5_CONFIG": folder.kerberos / "krb5.conf", "KRB5_KDC_PROFILE": folder.kerberos / "kdc.conf"}
    return {**os.environ, **krb5.environment(), **{key: str(value) for key, value in profiles.items()}}


def login_command(folder: ClusterFolder, krb5: Krb5, user: str, life: str) -> list[str]:
    """Returns the command that gets a user's ticket, for a life such as "10h" or "20s", into `new_ticket`.

    It cannot be renewed after that: Hadoop's client renews what it may, so one that has ended would still let in.
    """
    programs = [f"{key}={value}" for key, value in krb5.environment().items()]
    kinit = [krb5.program("kinit"), "-l", life, "-r", life, "-k", "-t", str(folder.keytab(user)), user]
    return ["env", *programs, f"KRB5CCNAME=FILE:{new_ticket(folder, user)}", *kinit]


def new_ticket(folder: ClusterFolder, user: str) -> Path:
    """Returns the file of a ticket on its way: kinit empties one that is there before it fills it."""
    return folder.tickets / f"{user}.new"


def ticket(folder: ClusterFolder, user: str | None) -> str:
    """Returns KRB5CCNAME of a user; of nobody, one that holds no ticket, so that a ticket of yours plays no part."""
    return f"FILE:{folder.tickets / (user or 'nobody')}"


def _krb5_conf(config: ClusterConfig) -> str:
    # Names are those of the cluster's hosts file: nobody asks a name server. TCP alone, which a cut link ends at once.
    return f"""\
[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
 forwardable = true
[realms]
 {REALM} = {{
  kdc = {config.master.fqdn}:{KDC_PORT}
 }}
[domain_realm]
 .{config.name}.test = {REALM}
"""


def _kdc_conf(config: ClusterConfig, place: Path, krb5: Krb5) -> str:
    modules = f"[dbmodules]\n db_module_dir = {krb5.modules}\n" if krb5.modules else ""
    return f"""\
[kdcdefaults]
 kdc_listen = {config.master.address}:{KDC_PORT}
 kdc_tcp_listen = {config.master.address}:{KDC_PORT}
[realms]
 {REALM} = {{
  database_name = {place}/principals
  key_stash_file = {place}/stash
  acl_file = {place}/acl
  max_life = 24h
  max_renewable_life = 7d
 }}
{modules}"""


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)


def _run(command: list[str], variables: dict[str, str], said: str = "") -> None:
    done = subprocess.run(command, input=said, capture_output=True, text=True, check=False, env=variables)
    # kadmin.local ends with 0 whatever happens to its commands; a warning names a policy that nobody set.
    errors = [line for line in done.stderr.splitlines() if "while" in line]
    if done.returncode != 0 or errors:
        raise CommandError(f"{command[0]}, exit code {done.returncode}: {(errors or [done.stderr.strip()])[0]}")
