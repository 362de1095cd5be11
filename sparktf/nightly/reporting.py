"""A run's report at its end: its own page, and the one of all runs of its name."""

from __future__ import annotations

from sparktf.config.job import JobConfig
from sparktf.driver.hooks import Put
from sparktf.nightly.report.index_page import write_index
from sparktf.nightly.report.run_page import run_page
from sparktf.nightly.report.stored import gather
from sparktf.results.result import RunResult
from sparktf.rundir import RunDirectory
from sparktf.storage.base import Storage


def keep_report(
    storage: Storage, rundir: RunDirectory, result: RunResult, config: JobConfig, put: Put, now_s: float
) -> None:
    """Writes both pages.

    Args:
        put: Keeps a file of the run.
        now_s: Seconds since 1970.

    Raises:
        FencedOffError: a newer submission owns the run.
        StorageError: the storage failed.
    """
    put(rundir.report, run_page(gather(storage, rundir, result, config), now_s))
    write_index(storage, rundir.root, rundir.name, now_s)
