"""MIT Kerberos' programs: the machine's own, else its distribution's packages, unpacked into the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from minihadoop.environment import cache_root
from minihadoop.errors import RefusedError

_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PACKAGES = ("krb5-kdc", "krb5-admin-server", "krb5-user")
# Of all that the packages bring along: Kerberos itself and the event loop of its server.
_NEEDED = re.compile(r"krb5-|lib(krb5|k5|kdb5|kadm5|gss|ev|verto)")
_FOLDERS = ("usr/sbin", "usr/bin")
_SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")


@dataclass(frozen=True)
class Krb5:
    """Where the programs are: `root` holds what was unpacked; None if they are the machine's own."""

    root: Path | None

    @property
    def path(self) -> str:
        """Folders of programs, as PATH has them."""
        own = [str(self.root / folder) for folder in _FOLDERS] if self.root else []
        return os.pathsep.join([*own, os.environ.get("PATH", ""), *_SYSTEM])

    @property
    def modules(self) -> Path | None:
        """The folder of the server's modules for databases, unless it is where the server looks by itself."""
        return next(self.root.glob("usr/lib/**/krb5/plugins/kdb"), None) if self.root else None

    def program(self, name: str) -> str:
        """Returns the path of a program."""
        return shutil.which(name, path=self.path) or name

    def environment(self) -> dict[str, str]:
        """Returns what the programs need in their environment."""
        libraries = sorted({str(file.parent) for file in self.root.glob("usr/lib/**/lib*.so*")}) if self.root else []
        own = [folder for folder in libraries if "plugins" not in folder]
        return {"PATH": self.path, **({"LD_LIBRARY_PATH": os.pathsep.join(own)} if own else {})}


def installed() -> Krb5 | None:
    """Returns the programs that are there, unpacked or the machine's own; None if some are missing."""
    unpacked = cache_root() / "krb5"
    for programs in (Krb5(None), Krb5(unpacked) if (unpacked / "complete").exists() else None):
        if programs and all(shutil.which(name, path=programs.path) for name in _PROGRAMS):
            return programs
    return None


def found() -> Krb5:
    """Returns the programs that a secured cluster was started with.

    Raises:
        RefusedError: They have gone since.
    """
    programs = installed()
    if programs is None:
        raise RefusedError("MIT Kerberos has gone since the cluster was started: take it down, and start it again")
    return programs


def resolve_krb5(report: Callable[[str], None]) -> Krb5:
    """Returns the programs; where the machine has none, unpacks its distribution's packages, without installing them.

    Raises:
        RefusedError: They are neither installed nor to be had.
    """
    if programs := installed():
        return programs
    folder = cache_root() / "krb5"
    report(f"unpacking MIT Kerberos into {folder} (once, about 2 MB)")
    aside = folder.with_name(f"krb5.{os.getpid()}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        _unpack(aside)
        (aside / "complete").touch()
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        raise RefusedError(
            "--secure needs MIT Kerberos, whose packages are neither installed nor to be had by apt-get download "
            f"({said[-1] if said else error}): install it (Debian, Ubuntu: apt-get install {' '.join(_PACKAGES)})"
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    programs = installed()
    if programs is None:
        raise RefusedError(
            f"MIT Kerberos' packages lack one of {', '.join(_PROGRAMS)}: remove {folder} and install them "
            f"(Debian, Ubuntu: apt-get install {' '.join(_PACKAGES)})"
        )
    return programs


def _unpack(into: Path) -> None:
    # A simulated installation names what this machine lacks, by the names of its own release.
    listed = _output(["apt-get", "--simulate", "--no-install-recommends", "install", *_PACKAGES], into)
    names = [line.split()[1] for line in listed.splitlines() if line.startswith("Inst ")]
    _output(["apt-get", "download", *(name for name in names if _NEEDED.match(name))], into)
    for package in into.glob("*.deb"):
        _output(["dpkg", "--extract", str(package), str(into)], into)
        package.unlink()


def _output(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout
