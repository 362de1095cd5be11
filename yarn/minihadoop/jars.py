"""Hadoop's jars: resolved once by Maven, then kept in the cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from minihadoop.environment import cache_root
from minihadoop.errors import CommandError, RefusedError

POM = Path(__file__).with_name("pom.xml")
_LAST_LINES = 15


@dataclass(frozen=True)
class Distribution:
    """The files that the daemons run from; complete if its mark holds the pom that it was made from."""

    path: Path

    @property
    def lib(self) -> Path:
        return self.path / "lib"

    @property
    def home(self) -> Path:
        """Folder of webapps/, for the classpath."""
        return self.path / "home"

    @property
    def mark(self) -> Path:
        return self.path / "complete.xml"

    def is_complete(self) -> bool:
        return self.mark.is_file() and self.mark.read_bytes() == POM.read_bytes()


def hadoop_version() -> str:
    """Returns the version that the pom names: the one of clusters that are asked for no other."""
    found = ET.parse(POM).getroot().findtext("{*}properties/{*}hadoop.version")
    if not found:
        raise CommandError(f"{POM} has no property hadoop.version")
    return found


def distribution(version: str = "") -> Distribution:
    """Returns the cached distribution of a version (default: the pom's), which need not be there yet."""
    return Distribution(cache_root() / f"hadoop-{version or hadoop_version()}")


def resolve(report: Callable[[str], None], version: str = "") -> Distribution:
    """Returns the distribution, downloaded if the cache does not hold it whole.

    Args:
        version: Default: the pom's.

    Raises:
        RefusedError: The tool for the download is missing.
        CommandError: Maven failed.
    """
    wanted = distribution(version)
    if wanted.is_complete():
        return wanted
    wanted.path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(wanted.path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not wanted.is_complete():
            _download(wanted, version or hadoop_version(), report)
    finally:
        os.close(descriptor)
    return wanted


def _download(wanted: Distribution, version: str, report: Callable[[str], None]) -> None:
    """Fills a folder aside, then moves it into place; deletes what an interrupted download left there."""
    if not shutil.which("mvn"):
        raise RefusedError(
            f"Maven is needed to download Hadoop and there is no mvn on the PATH: install it "
            f"(Debian, Ubuntu: apt-get install maven), or copy {wanted.path} from a machine that has it"
        )
    report(f"downloading Hadoop {version} with Maven into {wanted.path} (once, about 100 MB)")
    aside = Distribution(wanted.path.with_name(f"{wanted.path.name}.partial"))
    for old in (aside.path, wanted.path):
        shutil.rmtree(old, ignore_errors=True)
    _run_maven(aside.lib, version)
    _unpack_webapps(aside)
    aside.mark.write_bytes(POM.read_bytes())
    aside.path.rename(wanted.path)


def _run_maven(lib: Path, version: str) -> None:
    settings = (f"-Dhadoop.version={version}", f"-DoutputDirectory={lib}")
    command = ["mvn", "-B", "-ntp", "-f", str(POM), *settings, "dependency:copy-dependencies"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        last = "\n".join(done.stdout.splitlines()[-_LAST_LINES:])
        raise CommandError(f"Maven did not get Hadoop's jars, exit code {done.returncode}:\n{last}")


def _unpack_webapps(into: Distribution) -> None:
    """Takes webapps/ out of the tests jar, and the jar off the classpath."""
    [tests] = into.lib.glob("hadoop-hdfs-*-tests.jar")
    with zipfile.ZipFile(tests) as jar:
        jar.extractall(into.home, [name for name in jar.namelist() if name.startswith("webapps/")])
    tests.unlink()
