"""Looks at everything at once, each with a limit, and prints a line for each."""

from __future__ import annotations

import datetime as dt
import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from rich.text import Text

from sparktf.config.job import JobConfig
from sparktf.config.load import load_config
from sparktf.config.submit import KEYTAB
from sparktf.console.plain_console import PlainConsole, say
from sparktf.doctor import hadoop_cluster, this_machine
from sparktf.doctor.asked_nodes import ask_nodes
from sparktf.doctor.diagnosis import Diagnoses, Diagnosis, Mark, failed_look, fine, note, stop, verdict_on
from sparktf.driver.spark.masters import master_to_submit_to
from sparktf.errors import ConfigError
from sparktf.hadoop import HadoopConf, act_as
from sparktf.results.time_limit import time_limit
from sparktf.storage.file_systems import FileSystems
from sparktf.submit.cluster_web import ClusterWeb
from sparktf.submit.environment import hadoop_conf_dir
from sparktf.submit.preflight import check_keytab
from sparktf.submit.resource_managers import ResourceManagers, read_resource_managers
from sparktf.submit.yarn import ResourceManagerApi, queue_of
from sparktf.told import count_in_words, told
from sparktf.trusted import trusted

Inspection: TypeAlias = Callable[[], Diagnosis]

_LIMIT_S = 20.0
_WIDTH = len("configuration")
_NOT_OF_NODES = ("output", "memory, disk", "clocks")
"""What does not keep an application from starting."""

_STYLES = {Mark.OK: "green", Mark.NOTE: "yellow", Mark.STOP: "bold red"}


def doctor(
    config: str | None,
    sets: Sequence[str],
    date: str | None,
    open_systems: Callable[[JobConfig | None], FileSystems],
    nodes: bool = False,
    *,
    json: bool,
) -> int:
    """Looks at this machine and its cluster, and prints the result; returns 0, or 2 if something would stop a run.

    Args:
        config: Path of a configuration; None to look without one.
        date: Fills its templates; today by default.
        open_systems: Returns this process's file systems, given the configuration.
        nodes: Look at the nodes as well, which takes executors of the cluster for some seconds.
        json: Print one JSON document.

    Raises:
        KeyboardInterrupt: the look at the nodes was interrupted, and has given back all that it held.
    """
    if config is None and (sets or nodes):
        what = "--set changes a configuration" if sets else "--nodes looks at the nodes that a configuration asks for"
        raise ConfigError(f"{what}: name it with --config FILE")
    diagnoses: list[Diagnosis] = []
    job = None
    if config is not None:
        job, said = _read(config, sets, date)
        diagnoses.append(said)
    diagnoses += look_at_all(looks_at(job, open_systems), _LIMIT_S)
    if nodes and config is not None and job is not None:
        *diagnoses, last = diagnoses
        if not json:
            _show(diagnoses)
            say("asking the nodes by a small Spark application; Ctrl-C gives back what it holds")
        of_nodes = _looked_at_nodes(job, Path(config).absolute().parent, diagnoses, last)
        diagnoses += of_nodes
    else:
        of_nodes = diagnoses
    verdict = verdict_on(diagnoses)
    if json:
        print(Diagnoses(exit_code=verdict, diagnoses=tuple(diagnoses)).model_dump_json(indent=1))
    else:
        _show(of_nodes)
        _show_sum(diagnoses)
    return int(verdict)


def _looked_at_nodes(
    job: JobConfig, beside: Path, diagnoses: Sequence[Diagnosis], unlooked: Diagnosis
) -> list[Diagnosis]:
    """Returns the diagnoses of the nodes, unless no application would get as far: then why they are not looked at."""
    if unlooked.mark is Mark.STOP:
        return [unlooked]
    stopped = [one.subject for one in diagnoses if one.mark is Mark.STOP and one.subject not in _NOT_OF_NODES]
    if stopped:
        return [note("nodes", f"not looked at before the above is mended: {', '.join(stopped)}")]
    try:
        return ask_nodes(job, beside)
    except Exception as error:  # noqa: BLE001 - as any look
        return [failed_look("nodes", error)]


def _read(config: str, sets: Sequence[str], date: str | None) -> tuple[JobConfig | None, Diagnosis]:
    try:
        job = load_config(config, sets, date or dt.datetime.now(dt.UTC).date().isoformat())
    except ConfigError as error:
        more = len(error.all_wrong) - 1
        others = f" ({more} more: sparktf check {config})" if more > 0 else ""
        return None, stop("configuration", f"{told(str(error.all_wrong[0] if error.all_wrong else error))}{others}")
    act_as(job.submit.proxy_user)
    master = master_to_submit_to(job).url
    return job, fine("configuration", f"{config}: {job.cluster.nodes} nodes on {master}")


def looks_at(
    config: JobConfig | None, open_systems: Callable[[JobConfig | None], FileSystems]
) -> Mapping[str, Inspection]:
    """Returns the looks that are due, by subject; without a configuration, those that need none."""
    looks: dict[str, Inspection] = {
        "Python": functools.partial(this_machine.look_at_python, config),
        "Java": this_machine.look_at_java,
        "Spark": this_machine.look_at_spark,
        "libraries": this_machine.look_at_libraries,
    }
    folder = hadoop_conf_dir()
    needs_yarn = config is not None and master_to_submit_to(config).has_resource_manager
    try:
        hadoop = HadoopConf.from_folder(folder) if folder is not None else HadoopConf()
        managers = _managers(folder, hadoop, needs_yarn=needs_yarn, named=config is not None)
    except ConfigError as error:
        looks["Hadoop"] = functools.partial(failed_look, "Hadoop", error)
        hadoop, managers = HadoopConf(), None
    else:
        judge = hadoop_cluster.judge_configuration
        looks["Hadoop"] = functools.partial(judge, folder, hadoop, needs_yarn=needs_yarn)
        if config is not None or hadoop_cluster.is_remote(hadoop):
            looks["output"] = functools.partial(hadoop_cluster.look_at_output, config, open_systems)
        looks |= _looks_at_cluster(config, hadoop, managers)
    looks["memory, disk"] = functools.partial(this_machine.look_at_memory, config)
    looks["ports"] = functools.partial(this_machine.look_at_ports, config)
    looks["nodes"] = functools.partial(_nodes, config)
    return looks


def _managers(folder: Path | None, hadoop: HadoopConf, *, needs_yarn: bool, named: bool) -> ResourceManagers | None:
    """Returns the ResourceManagers to ask, None if there are none, or the run needs none."""
    if folder is None or (named and not needs_yarn):
        return None
    if not named and not any(key.startswith("yarn.resourcemanager.") for key in hadoop.properties):
        return None
    return read_resource_managers(folder)


def _looks_at_cluster(
    config: JobConfig | None, hadoop: HadoopConf, managers: ResourceManagers | None
) -> dict[str, Inspection]:
    looks: dict[str, Inspection] = {}
    trust = None
    with suppress(ConfigError):  # of which other looks tell
        trust = trusted(hadoop.properties)
    web = ClusterWeb(trust)  # of all looks: one login
    if managers is not None:
        api = ResourceManagerApi(managers, web)
        looks["YARN"] = functools.partial(hadoop_cluster.look_at_yarn, config, managers, api)
        if config is not None:
            looks["queue"] = functools.partial(_queue, queue_of(config), api)
    if managers is not None or hadoop_cluster.is_remote(hadoop):
        looks["Kerberos"] = functools.partial(_kerberos, config, hadoop)
        looks["clocks"] = functools.partial(_clocks, hadoop, managers, web)
    return looks


def _queue(name: str, api: ResourceManagerApi) -> Diagnosis:
    return hadoop_cluster.judge_queue(name, api.queues())


def _kerberos(config: JobConfig | None, hadoop: HadoopConf) -> Diagnosis:
    wanted = hadoop_cluster.is_secured(hadoop.properties)
    ticket = hadoop_cluster.look_at_ticket() if wanted else None
    keytab = config is not None and config.submit.login.get(KEYTAB)
    if wanted and keytab:
        check_keytab(keytab)
    now = dt.datetime.now()  # local, as klist tells it
    limit = None if config is None else time_limit(config.train, time.time(), time.time())
    return hadoop_cluster.judge_ticket(ticket, now, wanted=wanted, keytab=bool(keytab), limit=limit)


def _clocks(hadoop: HadoopConf, managers: ResourceManagers | None, web: ClusterWeb) -> Diagnosis:
    times = hadoop_cluster.look_at_clocks(hadoop, managers, web)
    return hadoop_cluster.judge_clocks(times, kerberos=hadoop_cluster.is_secured(hadoop.properties))


def _nodes(config: JobConfig | None) -> Diagnosis:
    """Says what is not looked at: only a Spark job knows it."""
    archive = None if config is None else config.submit.archive
    if archive is not None and "://" not in archive and not Path(archive.partition("#")[0]).is_file():
        return stop("nodes", f"submit.archive: {archive} does not exist: write it with sparktf pack --output {archive}")
    brought = f", which {archive} brings" if archive is not None else ""
    unlooked = f"not looked at: their Python{brought}, their disks and the network between them"
    return note("nodes", unlooked if config is None else f"{unlooked}; --nodes does, by a small Spark application")


def look_at_all(looks: Mapping[str, Inspection], limit_s: float) -> list[Diagnosis]:
    """Looks at all at once; a look that takes longer than `limit_s` seconds stops a run, and is not waited for."""
    found: dict[str, Diagnosis] = {}
    threads = [
        threading.Thread(target=_look_into, args=(subject, look, found), name=f"doctor-{subject}", daemon=True)
        for subject, look in looks.items()
    ]
    for thread in threads:
        thread.start()
    deadline_s = time.monotonic() + limit_s
    for thread in threads:
        thread.join(max(deadline_s - time.monotonic(), 0))
    late = f"gave no answer within {limit_s:g} s: see whether it is up, and whether this machine reaches it"
    return [found[subject] if subject in found else stop(subject, late) for subject in looks]


def _look_into(subject: str, look: Inspection, found: dict[str, Diagnosis]) -> None:
    try:
        found[subject] = look()
    except Exception as error:  # noqa: BLE001 - one look says so, and the others go on
        found[subject] = failed_look(subject, error)


def _show(diagnoses: Sequence[Diagnosis]) -> None:
    console = PlainConsole(soft_wrap=True)
    for one in diagnoses:
        line = Text(f"{one.mark:<5}", style=_STYLES[one.mark])
        line.append(f" {one.subject:<{_WIDTH}}  {one.found}", style="default")
        console.print(line)


def _show_sum(diagnoses: Sequence[Diagnosis]) -> None:
    stops = sum(one.mark is Mark.STOP for one in diagnoses)
    PlainConsole(soft_wrap=True).print(
        "nothing that was looked at would stop a run"
        if not stops
        else f"{count_in_words(stops, 'thing')} would stop a run"
    )
