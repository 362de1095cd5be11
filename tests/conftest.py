"""What holds for every suite: one that is asked to end tidies up first, however it is asked."""

from __future__ import annotations

import gc
import signal

from hypothesis import HealthCheck, settings

# On a loaded machine a case takes as long as it takes.
settings.register_profile("sparktf", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sparktf")


def pytest_configure() -> None:
    """Lets SIGTERM and SIGHUP end a run as Ctrl-C does, with all fixtures torn down; a shell's `&` ignores SIGINT.

    Turns the collector off until all tests are imported: these leave hardly any garbage, and each of its rounds would
    visit all modules and tests that there are by then.
    """
    gc.disable()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Exempts from the collector what has been imported, and what stays to the end."""
    gc.freeze()
    gc.enable()
