"""Looks at this machine: its programs, libraries, memory, disk and ports."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sparktf.config.job import JobConfig
from sparktf.doctor.diagnosis import Diagnosis, fine, note, stop
from sparktf.driver.spark.differences import SparkBuild, check_spark, find_build, installed_pyspark
from sparktf.driver.spark.masters import master_to_submit_to
from sparktf.driver.spark.yarn_memory import PYTHON_DRIVER_MIB
from sparktf.errors import PreflightError
from sparktf.preview.capacity import machine_memory
from sparktf.process.ports import BoundPort
from sparktf.submit.environment import find_programs
from sparktf.submit.preflight import check_java, check_python, version_of_java

_LIBRARIES = ("tensorflow", "keras", "tf_keras", "numpy", "pyarrow")
_NEEDED = ("tensorflow", "keras", "numpy", "pyarrow")
_MEMINFO = Path("/proc/meminfo")
_LITTLE_DISK_MIB, _NO_DISK_MIB = 4096, 256


def look_at_python(config: JobConfig | None) -> Diagnosis:
    """Looks at the Pythons of drivers and executors on this machine. Raises `PreflightError` if one cannot run a job.

    Args:
        config: None to look at a driver on this machine alone.
    """
    named = {"PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"} if config is None else _pythons_used_here(config)
    for setting in sorted(named & os.environ.keys()):
        check_python(os.environ[setting], setting)
    others = [f"{setting}={os.environ[setting]}" for setting in sorted(named & os.environ.keys())]
    return fine("Python", ", ".join([f"{platform.python_version()} at {sys.executable}", *others]))


def _pythons_used_here(config: JobConfig) -> set[str]:
    executors_here = master_to_submit_to(config).one_machine
    client = config.submit.deploy_mode == "client"
    return ({"PYSPARK_DRIVER_PYTHON"} if client else set()) | ({"PYSPARK_PYTHON"} if executors_here else set())


def look_at_java() -> Diagnosis:
    """Looks for the Java that Spark would start with. Raises `PreflightError` if there is none, or an old one."""
    programs = find_programs()
    check_java(programs)
    if programs.sets_java:
        return note("Java", "spark-env.sh may set it, and only Spark can tell which")
    java = shutil.which(str(Path(programs.java_home) / "bin/java") if programs.java_home else "java")
    home = Path(java or "").resolve().parent.parent
    version = version_of_java(home / "release")
    return fine("Java", f"{version or 'of unknown version'} at {home}")


def look_at_spark() -> Diagnosis:
    """Looks for Spark. Raises `PreflightError` if there is none, or one that sparktf does not run on."""
    programs = find_programs()
    check_spark(programs.spark_home)
    return judge_spark(programs.spark_home, find_build(programs.spark_home), installed_pyspark())


def judge_spark(home: Path, build: SparkBuild | None, pyspark: str | None) -> Diagnosis:
    """Returns the diagnosis of a Spark.

    Args:
        build: None if its version is unknown.
        pyspark: Version of the installed pyspark, None without one.
    """
    if build is None:
        return note("Spark", f"of unknown version at {home}")
    told = f"{build.version} (Scala {build.of_scala}) at {home}"
    if pyspark is not None and pyspark != build.version:
        return note("Spark", f"{told}; the pyspark beside sparktf is {pyspark}, and spark-submit uses Spark's own")
    return fine("Spark", told)


def look_at_libraries() -> Diagnosis:
    """Looks at TensorFlow and the libraries around it, without importing them."""
    return judge_libraries(_versions(_LIBRARIES))


def judge_libraries(versions: Mapping[str, str]) -> Diagnosis:
    """Returns the diagnosis of installed libraries."""
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    missing = [name for name in _NEEDED if name not in versions]
    if missing:
        lacks = f"{sys.executable} lacks {', '.join(missing)}: pip install sparktf there, with all it needs"
        return stop("libraries", f"{lacks} ({told or 'it has none of them'})")
    return fine("libraries", told)


def _versions(names: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def look_at_memory(config: JobConfig | None) -> Diagnosis:
    """Looks at the memory and the scratch disk of this machine, for what the run would start here."""
    scratch = Path(tempfile.gettempdir())
    free_disk_mib = shutil.disk_usage(scratch).free >> 20
    return judge_memory(_needed_mib(config), machine_memory(_MEMINFO)[1], free_disk_mib, scratch)


def _needed_mib(config: JobConfig | None) -> int:
    """Returns the memory of the run's processes on this machine, in MiB; 0 if all of them are elsewhere."""
    if config is None:
        return 0
    cluster, submit = config.cluster, config.submit
    driver = submit.driver_memory_mib + PYTHON_DRIVER_MIB if submit.deploy_mode == "client" else 0
    return driver + (cluster.nodes * cluster.node_memory.mib if master_to_submit_to(config).one_machine else 0)


def judge_memory(needed_mib: int, free_mib: int | None, free_disk_mib: int, scratch: Path) -> Diagnosis:
    """Returns the diagnosis of memory and disk.

    Args:
        needed_mib: Memory of the run's processes here; 0 if unknown.
        free_mib: None if unknown.
        scratch: The folder of temporary files, whose disk has `free_disk_mib`.
    """
    memory = "unknown memory" if free_mib is None else f"{free_mib:,} MiB of memory free"
    told = f"{memory}, {free_disk_mib:,} MiB of disk free at {scratch}"
    if free_disk_mib < _NO_DISK_MIB:
        return stop("memory, disk", f"{told}: make room there, or name another folder in TMPDIR")
    if free_mib is not None and free_mib < needed_mib:
        lower = "lower cluster.workers or cluster.trainer_memory_mib, or end other programs"
        return note("memory, disk", f"{told}, and the run's processes here may take {needed_mib:,} MiB: {lower}")
    if free_disk_mib < _LITTLE_DISK_MIB:
        return note("memory, disk", f"{told}, which Spark's shuffles and the model's export may fill")
    return fine("memory, disk", told)


def look_at_ports(config: JobConfig | None) -> Diagnosis:
    """Looks whether this machine can listen, where the configuration says so, and by which address others reach it.

    Raises:
        PreflightError: no port of the range is free.
    """
    nodes_here = config is not None and master_to_submit_to(config).one_machine
    BoundPort(config.cluster.node_ports if config is not None and nodes_here else "0").close()
    driver_here = config is not None and config.submit.deploy_mode == "client"
    if config is not None and driver_here and not nodes_here and (port := config.cluster.control_port):
        _check_control_port(port)
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError:
        address = None
    return judge_address(name, address, is_reached=driver_here and not nodes_here)


def _check_control_port(port: int) -> None:
    try:
        BoundPort(f"{port}").close()
    except PreflightError as error:
        raise PreflightError(
            f"cluster.control_port: {port} is taken on {socket.gethostname()}: name another one, or 0 for any"
        ) from error


def judge_address(name: str, address: str | None, *, is_reached: bool) -> Diagnosis:
    """Returns the diagnosis of this machine's name.

    Args:
        address: None if the name resolves to none.
        is_reached: Whether executors elsewhere reach a driver here by it.
    """
    if address is None or address.startswith("127."):
        says = "resolves to no address" if address is None else f"is {address}, which other machines cannot reach"
        told = f"this machine's name {name} {says}"
        if is_reached:
            mend = "give it an address of its own in /etc/hosts or DNS, or set SPARK_LOCAL_IP"
            return note("ports", f"{told}, but executors elsewhere connect to the driver here: {mend}")
        return fine("ports", f"can listen; {told}: no matter, unless a driver here has executors elsewhere")
    return fine("ports", f"can listen; others reach this machine as {name} ({address})")
