"""The pages of runs, as a Chromium shows them: what is there can be read, on a wide screen and a narrow one, by day and
by night."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pages.browser import FAILED, FIRST_NIGHT, KEPT, PUBLISHED, REFUSED, UNDER_WAY, Browser
from reported import HOSTILE

WIDE, NARROW = 1280, 400


def page_of(day: int) -> str:
    return f"2026-11-{day:02d}/report.html"


PAGES = {
    "published": page_of(PUBLISHED),
    "kept": page_of(KEPT),
    "failed": page_of(FAILED),
    "refused": page_of(REFUSED),
    "under way": page_of(UNDER_WAY),
    "first": page_of(FIRST_NIGHT),
    "index": "index.html",
}

SHOWN = {
    "published": [
        "Published version 30",
        "better than version 13 in auc by 0.0040 (95 %: 0.0011 to 0.0069) on 102,400 rows",
        "champion 0.8320",
        "country=nl",
        "Beside version 9, the best of the last 7",
        "loss by update",
        "18.1 GB were read, 78.1% of them on the reader's own host. Training waited for rows 7.2% of the time.",
        "worker 2 lost its executor: Container killed by YARN for exceeding physical memory limits "
        "(worker 2 on dn3.example)",
        "63 ms (92 ms)",
        "Attempt 2: lost at update 4,812: worker 1 on dn2.example lost its agent: executor lost; went on with 3 after "
        "0.31 s; all workers again at update 4,835.",
        "The weights go back to a training from scratch of 2026-10-25",
        "country_embedding/table",
        "measurement_000_of_the_last_thirty_days",
        "worker 2: its host's disk is nearly full: /data",
        f"plan={HOSTILE}",
    ],
    "kept": [
        "Kept the champion, version 13",
        "worse than version 13 in auc by 0.0120, which is more than gate.metrics.auc.tolerance: 0.002",
        "undecided",
        "480,000",
    ],
    "failed": ["Failed: the model's code", HOSTILE, "worker 1 on dn2.example", "InvalidArgumentError"],
    "refused": [
        "Data refused",
        "column age: the greatest value is 612, above 120 (data.checks.refuse.columns.age.max)",
        "None is stored: the run ended before its first attempt.",
    ],
    "first": ["Published version 1", "Model against its bounds", "2 slices that are good", "country=de"],
    "under way": [
        "Under way",
        "epoch 2/3  step 12,000  rows 12,288,000  48,211 rows/s  loss 0.3012",
        "under way",
        "went on with 3 after 0.31 s.",
    ],
    "index": [
        "Published version 30",
        "Kept the champion, version 13",
        "the loss is NaN at update 17: lower the learning rate",
        "Data refused",
        "the dash is the champion, on the same rows",
        "2026-11-01",
        "12 earlier runs",
    ],
}

FIRST = {
    "published": [
        "Published version 30",
        "better than version 13 in auc by 0.0040",
        "0.8340",
        "champion 0.8320",
        "good",
    ],
    "kept": ["Kept the champion, version 13", "worse than version 13 in auc by 0.0120", "champion 0.8040", "worse"],
    "first": ["Published version 1", "nothing is published to compare with", "0.8123", "good"],
    "failed": ["Failed: the model's code", HOSTILE],
    "refused": ["Data refused", "column age: the greatest value is 612, above 120"],
    "index": ["Published version 30", "better than version 13 in auc by 0.0040", "loss", "the champion"],
}
"""What is read before anybody scrolls: verdict, finding, and the metric beside the champion's."""

CHARTS = {"published": 19, "kept": 19, "failed": 13, "refused": 10, "first": 17, "under way": 12, "index": 2}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_what_it_has_to_say(browser: Browser, name: str, width: int, scheme: str) -> None:
    seen = browser.look(PAGES[name], width, scheme, unfolds=True)
    text = " ".join(seen["text"].split())
    assert not [said for said in SHOWN[name] if " ".join(said.split()) not in text]
    assert seen["isDark"] is (scheme == "dark")
    assert seen["pageWidth"] == width
    assert seen["wide"] == []
    assert seen["crowded"] == []
    assert seen["faint"] == []
    assert seen["small"] == []
    assert seen["beyond"] == []
    assert not [share for share in seen["filled"] if share < 0.85]
    charts = seen["charts"]
    assert len(charts) == CHARTS[name]
    assert not [chart for chart in charts if min(chart["size"]) < 20 or not chart["marks"]]


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", FIRST)
def test_what_became_of_a_run_is_read_without_scrolling(browser: Browser, name: str, width: int) -> None:
    seen = browser.look(PAGES[name], width, "light")
    first = " ".join(seen["first"].split())
    assert not [said for said in FIRST[name] if said not in first]


@pytest.mark.parametrize(("width", "most"), [(WIDE, 4_300), (NARROW, 7_300)])
def test_what_holds_is_folded(browser: Browser, width: int, most: int) -> None:
    seen = browser.look(PAGES["published"], width, "light")
    assert seen["height"] <= most
    assert "10 columns that hold: " in seen["text"]
    assert "10 slices that are good" in seen["text"]
    assert "f5 double" not in " ".join(seen["text"].split())
    assert seen["text"].index("churned") < seen["text"].index("country\n")


def test_where_there_is_no_champion_it_is_said_once(browser: Browser) -> None:
    text = " ".join(browser.look(PAGES["first"], WIDE, "light", unfolds=True)["text"].split())
    assert text.count("nothing is published to compare with") == 1
    assert "champion" not in text


def test_the_index_shows_missing_nights_and_jumps(browser: Browser) -> None:
    text = browser.look("index.html", WIDE, "light", unfolds=True)["text"]
    assert "no run" in text  # a night between others
    assert "no model" in text
    assert "0.7900 \N{BLACK DOWN-POINTING TRIANGLE}" in text
    assert "champion 0.8320" in text


@pytest.mark.parametrize("name", PAGES)
def test_a_page_stands_alone_and_can_be_gone_through_by_ear(browser: Browser, stored: Path, name: str) -> None:
    seen = browser.look(PAGES[name], WIDE, "light", unfolds=True)
    assert seen["scripts"] == 0
    assert seen["loaded"] == []
    assert seen["headings"][0] == 1
    assert seen["headings"].count(1) == 1
    steps = zip(seen["headings"], seen["headings"][1:], strict=False)
    assert not [(before, after) for before, after in steps if after > before + 1]
    assert all(chart["label"] and chart["role"] == "img" for chart in seen["charts"])
    assert all(seen["tables"])
    assert len(set(seen["ids"])) == len(seen["ids"])
    assert set(seen["targets"]) <= set(seen["ids"])
    assert not missing(stored / PAGES[name], seen)


def missing(page: Path, seen: dict[str, Any]) -> list[str]:
    """Returns the links to other pages that lead nowhere."""
    return [link for link in seen["links"] if "://" not in link and not (page.parent / link).exists()]


def test_the_index_leads_to_each_page_there_is_and_tells_of_the_others(browser: Browser) -> None:
    seen = browser.look("index.html", WIDE, "light")
    assert set(seen["links"]) == {page for name, page in PAGES.items() if name != "index"}
    assert "Under way" in seen["text"]  # nobody's night is missing
