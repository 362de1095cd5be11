"""A Chromium that shows the pages of runs, as wide and as light as asked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages.browser import FAILED, FIRST_NIGHT, KEPT, MISSING, PUBLISHED, REFUSED, UNDER_WAY, Browser
from reported import StoredRuns
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from sparktf.nightly.report.index_page import write_index
from sparktf.nightly.report.run_page import run_page
from sparktf.nightly.report.stored import gather

_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a name whose runs have pages."""
    root = tmp_path_factory.mktemp("pages") / "runs"
    runs = StoredRuns(root)
    runs.days(19)
    runs.first(FIRST_NIGHT)
    shutil.rmtree(runs.directory(MISSING).path)
    runs.failed(FAILED)
    runs.refused(REFUSED)
    runs.published(PUBLISHED, 30)
    runs.under_way(UNDER_WAY)
    for day in (PUBLISHED, FAILED, REFUSED, KEPT, FIRST_NIGHT, UNDER_WAY):
        run = gather(runs.storage, runs.directory(day))
        Path(run.rundir.report).write_bytes(run_page(run, (run.told.heard_s or 0.0) + 5))
    folder = Path(runs.directory(1).path).parent
    write_index(runs.storage, str(root), folder.name, 1_795_600_000.0)
    return folder


@pytest.fixture(scope="session")
def browser(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Starts a browser; one that is missing is a failure that says what to install."""
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.fail(
            "chromium and chromedriver are needed: make chromium (Debian: apt-get install chromium chromium-driver)"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in _FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})  # what it asks for, and of whom
    folder = tmp_path_factory.mktemp("chromium")  # it leaves one behind in that for temporary files
    chromium = webdriver.Chrome(options=options, service=Service(driver, env={**os.environ, "TMPDIR": str(folder)}))
    try:
        yield Browser(chromium, stored)
    finally:
        chromium.quit()
