"""Looks at the Hadoop cluster: its configuration, HDFS, YARN, Kerberos and clocks."""

from __future__ import annotations

import datetime as dt
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from sparktf.config.job import JobConfig
from sparktf.doctor.diagnosis import Diagnosis, fine, note, stop
from sparktf.driver.spark.yarn_memory import Container, check_fits
from sparktf.driver.spark.yarn_settings import containers
from sparktf.errors import ConfigError, PreflightError, StorageError, StorageNotFoundError, StorageUnavailableError
from sparktf.hadoop import HDFS_SCHEMES, VIEWFS, HadoopConf
from sparktf.results.time_limit import TimeLimit
from sparktf.storage.base import Storage
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.ticket_cache import cached_ticket
from sparktf.submit.cluster_web import ClusterWeb
from sparktf.submit.resource_managers import ResourceManagers
from sparktf.submit.yarn import Queues, ResourceManagerApi, YarnHost, queue_of, wait_for_resource_manager
from sparktf.told import count_in_words

_CALL_S = 4.0
"""Limit of one question to a web server."""

_SKEW_S, _SKEW_OF_KERBEROS_S = 10.0, 300.0
_SHORT_TICKET = dt.timedelta(hours=1)
_EXPIRES = re.compile(r"^\s*\S+ \S+\s+(\S+ \S+)\s+krbtgt/", re.MULTILINE)
_TIMES = ("%m/%d/%y %H:%M:%S", "%m/%d/%Y %H:%M:%S")  # As `klist` writes them in the C locale


def judge_configuration(folder: Path | None, hadoop: HadoopConf, *, needs_yarn: bool) -> Diagnosis:
    """Returns the diagnosis of Hadoop's configuration.

    Args:
        folder: None if no variable names one.
        needs_yarn: Whether the run is submitted to YARN.
    """
    if folder is None:
        told = "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"
        if needs_yarn:
            return stop("Hadoop", f"{told}, and submit.master is yarn: name the folder of yarn-site.xml in one of them")
        return note("Hadoop", f"{told}: paths without a scheme are local, and no YARN is looked at")
    if not hadoop.properties:
        return stop("Hadoop", f"{folder} has none of core-site.xml, hdfs-site.xml and yarn-site.xml: name their folder")
    return fine("Hadoop", f"{folder}, fs.defaultFS is {hadoop.default_fs}")


def look_at_output(config: JobConfig | None, open_systems: Callable[[JobConfig | None], FileSystems]) -> Diagnosis:
    """Writes, renames and deletes a small file where runs would be; makes no folder.

    Args:
        config: None to look at the user's home folder.
        open_systems: Returns this process's file systems, given the configuration.

    Raises:
        ConfigError: no storage supports the path.
    """
    systems = open_systems(config)
    path = systems.normalise(f"/user/{systems.credentials.user()}" if config is None else config.output.path)
    storage = systems.open(path, deadline_s=_CALL_S)
    key = "the home folder" if config is None else "output.path"
    try:
        folder = _nearest_folder(storage, path)
        storage.probe(folder)
    except StorageUnavailableError as error:
        return stop("output", f"{key}: {path} cannot be reached: {error}: is it up, and is that its address?")
    except StorageError as error:
        if config is None:
            return note("output", f"{path} cannot be written: {error}: name another folder in output.path")
        return stop("output", f"{key} cannot be written: {error}: name another folder, or have it given to you")
    return fine("output", f"{path} can be written" if folder == path else f"{path} can be made in {folder}")


def _nearest_folder(storage: Storage, path: str) -> str:
    """Returns the path, or the nearest folder above it that exists. Raises `StorageError`."""
    while True:
        try:
            storage.stat(path)
        except StorageNotFoundError:
            above = path.rstrip("/").rpartition("/")[0] or "/"
            if above == path or above.endswith(":/"):
                raise
            path = above
        else:
            return path


def look_at_yarn(config: JobConfig | None, managers: ResourceManagers, api: ResourceManagerApi) -> Diagnosis:
    """Asks YARN for its hosts.

    Raises:
        ReservationError: no ResourceManager answers.
        PreflightError: a container is larger than the largest.
    """
    wait_for_resource_manager(managers, lambda _: None, 0)
    hosts = api.nodes()
    return judge_yarn(config, managers, hosts, api.queues() if hosts is not None else None, api.refusal)


def most_containers(hosts_mib: Sequence[int], size_mib: int, others_mib: Sequence[int]) -> int:
    """Returns how many containers of one size find room on hosts that have one of each other size, too."""
    if not others_mib:
        return sum(host // size_mib for host in hosts_mib)
    other, *rest = others_mib
    without = [
        [host - other if i == place else host for i, host in enumerate(hosts_mib)]
        for place, free in enumerate(hosts_mib)
        if free >= other
    ]
    return max((most_containers(left, size_mib, rest) for left in without), default=0)


def judge_yarn(
    config: JobConfig | None,
    managers: ResourceManagers,
    hosts: Sequence[YarnHost] | None,
    queues: Queues | None,
    refusal: str = "",
) -> Diagnosis:
    """Returns the diagnosis of YARN's size.

    Args:
        hosts: None if the REST API does not answer; so are `queues`.
        refusal: Why it does not, if that is known.

    Raises:
        PreflightError: a container is larger than the largest.
    """
    if hosts is None:
        silent = f"{managers.rpc[0]} accepts calls, but its REST API tells nothing at {managers.web[0]}"
        return note("YARN", f"{silent}: {refusal}" if refusal else silent)
    if not hosts:
        return stop("YARN", "no NodeManager is running: start one, or ask for the cluster's health")
    largest = max(host.memory_mib for host in hosts)
    memory = sum(host.memory_mib for host in hosts)
    free = sum(host.free_mib for host in hosts)
    told = f"{count_in_words(len(hosts), 'host')}, {memory:,} MiB, {free:,} MiB of them free"
    if config is None:
        return fine("YARN", f"{told}; the largest container {managers.maximum_mib or largest:,} MiB")
    asked = containers(config)
    _check_containers(config, asked, managers, queues, largest)
    sizes = ", ".join(f"{one.what} {one.allocated_mib(managers.step_mib):,} MiB" for one in asked)
    needed = sum(one.allocated_mib(managers.step_mib) for one in asked[1:])
    needed += config.cluster.nodes * asked[0].allocated_mib(managers.step_mib)
    mend = f"lower {config.cluster.sizes} or {asked[0].settings}"
    if needed > memory:
        return stop("YARN", f"{told}; {config.cluster.nodes} nodes need {needed:,} MiB ({sizes}): {mend}")
    first, *others = [one.allocated_mib(managers.step_mib) for one in asked]
    room = most_containers([host.memory_mib for host in hosts], first, others)
    if room < config.cluster.nodes:
        return stop(
            "YARN", f"{told}, but its hosts have room for {room} of {config.cluster.nodes} nodes ({sizes}): {mend}"
        )
    return fine("YARN", f"{told}; {config.cluster.nodes} nodes need {needed:,} MiB ({sizes})")


def _check_containers(
    config: JobConfig, asked: Sequence[Container], managers: ResourceManagers, queues: Queues | None, largest_host: int
) -> None:
    queue = queues.find(queue_of(config)) if queues is not None else None
    for container in asked:
        if queue is not None and queue.maximum_mib:
            check_fits(container, queue.maximum_mib, f"YARN's queue {queue.name}")
        elif managers.maximum_mib is not None:
            check_fits(container, managers.maximum_mib, "YARN (yarn-site.xml)")
        if container.mib > largest_host:
            raise PreflightError(
                f"the {container.what} needs {container.mib:,} MiB, but the largest host of YARN has "
                f"{largest_host:,} MiB: lower {container.settings}"
            )


def judge_queue(name: str, queues: Queues | None) -> Diagnosis:
    """Returns the diagnosis of a queue; `queues` are None if YARN does not tell."""
    if queues is None:
        return note("queue", f"{name}: YARN does not tell whether it exists")
    queue = queues.find(name)
    if queue is not None and queue.state != "RUNNING":
        return stop("queue", f"{queue.path} is {queue.state}: name another one in submit.queue, or have it started")
    if queue is not None:
        return fine("queue", f"{queue.path} is running")
    if not queues.complete or name == "default":
        return note("queue", f"{name} does not exist yet: YARN makes it on demand, or places applications elsewhere")
    there_are = ", ".join(sorted(queue.name for queue in queues.queues))
    return stop("queue", f"submit.queue: {name} does not exist in YARN: name one of {there_are}")


class Ticket(NamedTuple):
    """A user's ticket, as its file or `klist` tells of it."""

    is_valid: bool
    expires: dt.datetime | None = None  # Local time; None if it does not tell


def look_at_ticket() -> Ticket | None:
    """Returns the ticket of this user, of its file, else as `klist` tells of it; None where nobody can tell.

    Raises:
        OSError, TimeoutExpired: `klist` cannot be asked.
    """
    if (cached := cached_ticket()) is not None:
        ends = dt.datetime.fromtimestamp(cached.ends_s)
        return Ticket(ends > dt.datetime.now(), ends)
    try:
        known = subprocess.run(["klist", "-s"], stdin=subprocess.DEVNULL, timeout=_CALL_S, check=False)
        listed = subprocess.run(
            ["env", "LC_ALL=C", "klist"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_CALL_S, check=False
        )
    except FileNotFoundError:
        return None
    return Ticket(known.returncode == 0, expiry_of(listed.stdout.decode(errors="replace")))


def expiry_of(listed: str) -> dt.datetime | None:
    """Returns when the ticket-granting ticket expires, by the output of `klist` in the C locale; None if unknown."""
    for expires in _EXPIRES.findall(listed)[:1]:
        for form in _TIMES:
            with suppress(ValueError):
                return dt.datetime.strptime(expires, form)
    return None


def is_remote(hadoop: HadoopConf) -> bool:
    """Whether the default file system is a cluster's."""
    return urlsplit(hadoop.default_fs).scheme in (*HDFS_SCHEMES, VIEWFS)


def is_secured(properties: Mapping[str, str]) -> bool:
    """Whether the cluster wants Kerberos."""
    return properties.get("hadoop.security.authentication", "simple").lower() == "kerberos"


def judge_ticket(
    ticket: Ticket | None, now: dt.datetime, *, wanted: bool, keytab: bool, limit: TimeLimit | None = None
) -> Diagnosis:
    """Returns the diagnosis of Kerberos.

    Args:
        ticket: None if nobody can tell.
        now: Local time.
        wanted: Whether the cluster wants Kerberos.
        keytab: Whether the submission names one, which needs no ticket.
        limit: When the run ends at the latest, if that is known.
    """
    if not wanted:
        return fine("Kerberos", "the cluster does not ask for it (hadoop.security.authentication)")
    if keytab:
        return fine("Kerberos", "the cluster asks for it, and the submission names a keytab")
    if ticket is None:
        return note("Kerberos", "the cluster asks for it, but there is no klist to tell of a ticket: install krb5-user")
    if not ticket.is_valid:
        return stop("Kerberos", "the cluster asks for it, and there is no valid ticket: run kinit, or name a keytab")
    return _judge_life(None if ticket.expires is None else ticket.expires - now, limit)


def _judge_life(left: dt.timedelta | None, limit: TimeLimit | None) -> Diagnosis:
    """Returns the diagnosis of a valid ticket."""
    told = "there is a valid ticket" + ("" if left is None else f", for {left.total_seconds() / 3600:.1f} h more")
    if left is not None and limit is not None and left.total_seconds() < limit.left_s:
        return note(
            "Kerberos",
            f"{told}, and the run may last {limit.left_s / 3600:.1f} h ({limit.said}): have it renewed, with "
            "spark.kerberos.renewal.credentials: ccache, or name a keytab",
        )
    if left is not None and left < _SHORT_TICKET:
        return note("Kerberos", f"{told}, and a longer run would outlive it: run kinit, or name a keytab")
    return fine("Kerberos", told)


class ServerTime(NamedTuple):
    """The clock of a web server beside ours."""

    host: str
    ahead_s: float  # How much later it is there; the server tells whole seconds


def look_at_clocks(hadoop: HadoopConf, managers: ResourceManagers | None, web: ClusterWeb) -> list[ServerTime]:
    """Asks NameNodes and ResourceManagers for the time; those that do not answer are left out."""
    urls = list(managers.web) if managers is not None else []
    if urlsplit(hadoop.default_fs).scheme in HDFS_SCHEMES:
        with suppress(ConfigError):
            urls += [namenode.http for namenode in hadoop.namenodes(urlsplit(hadoop.default_fs).netloc)]
    # One login tells enough, and YARN is asked by it anyway.
    times = (_time_of(url, web, log_in=managers is None or url in managers.web) for url in dict.fromkeys(urls))
    return [found for found in times if found is not None]


def _time_of(url: str, web: ClusterWeb, *, log_in: bool) -> ServerTime | None:
    try:
        page = web.head(url, log_in=log_in)
        told_s = parsedate_to_datetime(page.date or "").timestamp() + 0.5
    except (OSError, ValueError, PreflightError):
        return None
    return ServerTime(urlsplit(url).hostname or url, told_s - page.asked_s)


def judge_clocks(times: Sequence[ServerTime], *, kerberos: bool) -> Diagnosis:
    """Returns the diagnosis of the clocks; with `kerberos` a difference of five minutes is a refused login."""
    if not times:
        return note("clocks", "no web server of the cluster tells the time")
    worst = max(times, key=lambda one: abs(one.ahead_s))
    if abs(worst.ahead_s) <= _SKEW_S:
        return fine("clocks", f"this machine and {', '.join(dict.fromkeys(one.host for one in times))} agree")
    way = "ahead of" if worst.ahead_s > 0 else "behind"
    told = f"{worst.host} is {abs(worst.ahead_s):,.0f} s {way} this machine: have both follow one time server"
    if kerberos and abs(worst.ahead_s) >= _SKEW_OF_KERBEROS_S:
        return stop("clocks", f"{told}; Kerberos refuses tickets over such a difference")
    return note("clocks", told)
