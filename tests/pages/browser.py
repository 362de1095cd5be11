"""A page as a Chromium shows it, and the days of the runs whose pages are looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_LOOK = (Path(__file__).parent / "look.js").read_text(encoding="utf-8")

PUBLISHED, FAILED, REFUSED, UNDER_WAY, KEPT = 22, 20, 21, 23, 5


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
