"""A page as a Chromium shows it, and the days of the runs whose pages are looked at."""

from __future__ import annotations

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
