"""What runs in the containers of an application, on all hosts of the mini cluster."""

from __future__ import annotations

import psutil


def containers_of(application: str) -> list[psutil.Process]:
    """Returns the processes that belong to an application's containers, on all hosts."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "environ"])
        if application.removeprefix("application_") in (process.info["environ"] or {}).get("CONTAINER_ID", "")
    ]


def processes_of(application: str) -> list[str]:
    """Returns what runs in an application's containers."""
    return [" ".join(process.info["cmdline"] or [process.name()]) for process in containers_of(application)]


def hosts_in_use(application: str) -> set[str]:
    """Returns the hosts where containers of an application run; those of executors given back run no more."""
    return {process.info["environ"]["NM_HOST"].partition(".")[0] for process in containers_of(application)}
