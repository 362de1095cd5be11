"""The documentation's site in a Chromium: it can be read, searched, and says what the docstrings say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pages.browser import Browser
from source_trees import ROOT

_LOOKED_FOR_S = 30


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the site as `make site` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        "--conf-dir",
        "docs/site",
    ]
    done = subprocess.run([*command, ".", str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return folder


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("page", ["README", "docs/nights/first-night", "docs/use/configuration", "docs/site/reference"])
def test_a_page_fits_the_screen(site: Path, browser: Browser, page: str, width: int) -> None:
    seen = browser.look(str(site / f"{page}.html"), width, "light")
    assert seen["pageWidth"] <= width
    assert "](" not in seen["text"]  # a link that Markdown did not see


def test_it_begins_with_the_readme_whose_links_bear_the_titles_of_pages(site: Path, browser: Browser) -> None:
    browser.look(str(site / "index.html"), 1280, "light")
    text = browser.text_once("Trains TensorFlow models", _LOOKED_FOR_S)
    assert "Your first night" in text
    assert ".md)" not in text


def test_the_reference_is_made_from_the_docstrings(site: Path, browser: Browser) -> None:
    text = browser.look(str(site / "docs/site/reference.html"), 1280, "light")["text"]
    assert "KerasEstimator" in text
    assert "the same id again resumes the run" in " ".join(text.split())


def test_the_search_finds_pages(site: Path, browser: Browser) -> None:
    browser.look(f"{site}/search.html?q=rollback", 1280, "light")
    assert "Publishing" in browser.text_once("Publishing", _LOOKED_FOR_S)


def test_no_page_needs_the_network_of_its_reader(site: Path, browser: Browser) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    assert not browser.asked_of_others(pages)


@pytest.mark.parametrize(("page", "pictures"), [("architecture", 1), ("lifecycle", 5)])
def test_diagrams_are_pictures_of_the_site(site: Path, browser: Browser, page: str, pictures: int) -> None:
    sizes = browser.pictures(site / f"docs/inside/{page}.html")
    assert len(sizes) == pictures
    assert all(width > 200 and height > 100 for width, height in sizes)
