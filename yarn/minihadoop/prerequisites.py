"""Checks the machine before anything is started; each missing tool is one clear line."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from minihadoop.environment import java_home
from minihadoop.errors import RefusedError

JAVA_AT_LEAST = 17
_TOOLS = {
    "ip": ("iproute2", "iproute2"),
    "unshare": ("util-linux", "util-linux"),
    "nsenter": ("util-linux", "util-linux"),
    "setsid": ("util-linux", "util-linux"),
    "mount": ("util-linux", "mount"),
    "hostname": ("hostname", "hostname"),
}


def check_tools() -> None:
    """Looks for the system's tools on the PATH.

    Raises:
        RefusedError: One is missing.
    """
    for tool, (product, package) in _TOOLS.items():
        if not shutil.which(tool):
            raise RefusedError(
                f"{product} is needed and there is no {tool} on the PATH: install it "
                f"(Debian, Ubuntu: apt-get install {package})"
            )


def check_curl() -> None:
    """Looks for a curl that shows tickets, as a secured cluster asks of whoever looks at it.

    Raises:
        RefusedError: There is none.
    """
    curl = shutil.which("curl")
    said = subprocess.run([curl, "--version"], capture_output=True, text=True, check=False).stdout if curl else ""
    if "SPNEGO" not in said:
        raise RefusedError(
            "--secure needs curl with SPNEGO and there is none on the PATH: install it "
            "(Debian, Ubuntu: apt-get install curl)"
        )


def check_java() -> Path:
    """Returns the home of a Java that is new enough.

    Raises:
        RefusedError: There is no Java, or an older one.
    """
    home = java_home()
    done = subprocess.run([home / "bin/java", "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    if not found or int(found.group(1)) < JAVA_AT_LEAST:
        raise RefusedError(
            f"Java {JAVA_AT_LEAST} or newer is needed, found {found.group(1) if found else 'none'} ({home}): install a "
            f"JDK (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or point JAVA_HOME to one"
        )
    return home
