"""A Chromium that shows the pages of runs, as wide and as light as asked."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reported import StoredRuns
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from sparktf.nightly.report.index_page import write_index
from sparktf.nightly.report.run_page import run_page
from sparktf.nightly.report.stored import gather

_LOOK = (Path(__file__).parent / "look.js").read_text(encoding="utf-8")
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")

PUBLISHED, FAILED, REFUSED, UNDER_WAY, KEPT = 22, 20, 21, 23, 5
"""The days of the runs whose pages are looked at."""


class Browser:
    """Shows pages, and says what is to be seen of them."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self._driver = driver
        self._folder = folder

    def look(self, page: str, width: int, scheme: str) -> dict[str, Any]:
        """Returns what a page looks like; see look.js."""
        self._driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 800},
        )
        self._driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        self._driver.get((self._folder / page).as_uri())
        seen: dict[str, Any] = self._driver.execute_script(_LOOK)
        return seen


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a name whose runs have pages."""
    root = tmp_path_factory.mktemp("pages") / "runs"
    runs = StoredRuns(root)
    runs.days(19)
    runs.failed(FAILED)
    runs.refused(REFUSED)
    runs.published(PUBLISHED, 30)
    runs.under_way(UNDER_WAY)
    for day in (PUBLISHED, FAILED, REFUSED, KEPT, UNDER_WAY):
        run = gather(runs.storage, runs.directory(day))
        Path(run.rundir.report).write_bytes(run_page(run, (run.told.heard_s or 0.0) + 5))
    folder = Path(runs.directory(1).path).parent
    write_index(runs.storage, str(root), folder.name, 1_795_600_000.0)
    return folder


@pytest.fixture(scope="session")
def browser(stored: Path) -> Iterator[Browser]:
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
    chromium = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(chromium, stored)
    finally:
        chromium.quit()
