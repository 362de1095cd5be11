"""A page as a Chromium shows it, and the days of the runs whose pages are looked at."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from selenium.common.exceptions import TimeoutException, WebDriverException
from selenium.webdriver.support.ui import WebDriverWait

_LOOK = (Path(__file__).parent / "look.js").read_text(encoding="utf-8")

PUBLISHED, FAILED, REFUSED, UNDER_WAY, KEPT, FIRST_NIGHT, MISSING = 22, 20, 21, 23, 5, 1, 14


class Browser:
    """Shows pages, and says what is to be seen of them."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self._driver = driver
        self._folder = folder

    def look(self, page: str, width: int, scheme: str, *, unfolds: bool = False) -> dict[str, Any]:
        """Returns what a page looks like; see look.js.

        Args:
            unfolds: All that is folded is unfolded first.
        """
        self._driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 800},
        )
        self._driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        path, asks, query = page.partition("?")
        self._driver.get((self._folder / path).as_uri() + asks + query)
        seen: dict[str, Any] = self._driver.execute_script(_LOOK, unfolds)
        return seen

    def text_once(self, text: str, limit_s: float) -> str:
        """Returns what the page's body says once a text is there, which scripts may bring."""

        def body(driver: Any) -> str:
            return str(driver.find_element("tag name", "body").text)

        try:
            waiting = WebDriverWait(self._driver, limit_s, ignored_exceptions=(WebDriverException,))
            waiting.until(lambda driver: text in body(driver))
        except TimeoutException:
            pass  # the caller says what is missing
        return body(self._driver)

    def asked_of_others(self, pages: Iterable[Path]) -> dict[str, list[str]]:
        """Opens pages, and returns the addresses beyond this machine that each asks for, of those that ask for any."""
        self._driver.get_log("performance")  # what pages before these have asked for
        found: dict[str, list[str]] = {}
        for page in pages:
            self._driver.get(page.as_uri())
            told = [json.loads(line["message"])["message"] for line in self._driver.get_log("performance")]
            asked = [event for event in told if event["method"] == "Network.requestWillBeSent"]
            urls = [event["params"]["request"]["url"] for event in asked]
            if others := [url for url in urls if not url.startswith(("file:", "data:", "blob:"))]:
                found[page.name] = others
        return found

    def pictures(self, page: Path) -> list[tuple[int, int]]:
        """Returns the width and height in pixels of the pictures of a page; 0 is one that cannot be shown."""
        self._driver.get(page.as_uri())
        sizes = "return [...document.querySelectorAll('article img')].map(i => [i.naturalWidth, i.naturalHeight])"
        return [(width, height) for width, height in self._driver.execute_script(sizes)]
