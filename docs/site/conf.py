"""The site that `make site` builds from the pages: their order, the reference, and what counts as an error."""

from __future__ import annotations

import re
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import mmdr
from docutils import nodes
from pydantic import BaseModel
from sphinx.util.docutils import SphinxDirective

from sparktf.version import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
_LINK_BY_PATH = re.compile(r"\[[\w./-]+\.md\]\(([\w./-]+\.md(?:#[\w-]+)?)\)")
"""A link whose text is the page's path, which whoever reads the files looks for."""

_TEXT = re.compile(r"\S.*[^:]$")
"""A line of text that begins no section of a docstring."""
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")

_LOOK = "---\nconfig:\n  look: classic\n  layout: dagre\n  theme: default\n---\n"
"""Of diagrams: as Mermaid draws them elsewhere."""
_WIDTH = re.compile(r'width="100%"(?=[^>]* viewBox="\S+ \S+ (\S+) )')
"""A picture's width, and that of what it shows."""
_LETTERS = ("font-size:16px", "font-size:14px")
"""As large as they were measured, and as they are shown: a reader's font may be wider."""

PARTS = {
    "Use": "use",
    "Each night": "nights",
    "The cluster": "cluster",
    "Inside": "inside",
}
"""Titles of the parts of the site, and their folders below docs/."""

project, author, release = "sparktf", "The sparktf authors", __version__
copyright = author

root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "docs/*.md", "docs/**/*.md", "docs/site/*.rst"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_use_rtype = False

html_theme = "furo"
html_title = "sparktf"
html_copy_source = False
html_extra_path = ["index"]
pygments_style, pygments_dark_style = "friendly", "monokai"


def pages_of(folder: str) -> list[str]:
    """Returns the pages of a part in the order in which README.md names them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").rpartition("\nPages:\n")[2]
    return re.findall(rf"\]\((docs/{folder}/[\w-]+)\.md\)", text)


def as_on_the_site(app: Sphinx, name: str, source: list[str]) -> None:
    """Has links to pages bear their titles, and gives README.md, which is the first page, the contents of the site."""
    source[0] = _LINK_BY_PATH.sub(r"[](\1)", source[0])
    if name != root_doc:
        return
    parts = [(title, pages_of(folder)) for title, folder in PARTS.items()]
    parts[0][1].append("docs/site/reference")
    parts[2][1].append("docs/versions")
    parts[-1][1].append("CHANGELOG")
    trees = [f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(pages) + "\n```" for title, pages in parts]
    source[0] = "\n\n".join([source[0], *trees]) + "\n"


def as_markdown(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Reads a docstring's single backticks as code, and an indented block under its text as an example."""
    found: list[str] = []
    is_example = False
    for line in lines:
        is_indented = line.startswith("    ")
        if is_indented and len(found) > 1 and not found[-1] and _TEXT.match(found[-2]):
            is_example = True
            found += ["::", ""]
        is_example = is_example and (is_indented or not line)
        found.append(line if is_example else _CODE.sub(r"``\1``", line))
    lines[:] = found


def without_fields(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returns: str | None
) -> tuple[str, None] | None:
    """Leaves the arguments of records out, which are their fields again."""
    return ("", None) if isinstance(obj, type) and issubclass(obj, BaseModel) else None


class Mermaid(SphinxDirective):
    """A block of Mermaid in a page: drawn as the site is built, so that no reader's browser has to fetch Mermaid."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Writes the picture into the site, and has the page show it; a click shows it as large as it is."""
        code = "\n".join(self.content)
        try:
            drawn = mmdr.render(_LOOK + code).svg()
        except ValueError as error:
            raise self.error(f"the diagram cannot be drawn: {error}") from error
        picture = _WIDTH.sub(r'width="\1"', drawn).replace(*_LETTERS)
        name = f"{sha256(code.encode()).hexdigest()[:16]}.svg"
        folder = Path(self.env.app.outdir, "_images")
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(picture, encoding="utf-8")
        path = "../" * self.env.docname.count("/") + f"_images/{name}"
        shown = f'<img src="{path}" alt="{escape(code)}" style="background: white">'  # its lines are dark at night, too
        return [nodes.raw("", f'<p><a href="{path}">{shown}</a></p>', format="html")]


def setup(app: Sphinx) -> None:
    """Sphinx's entry."""
    app.add_directive("mermaid", Mermaid)
    app.connect("source-read", as_on_the_site)
    app.connect("autodoc-process-docstring", as_markdown, priority=400)  # before napoleon reads it
    app.connect("autodoc-process-signature", without_fields)
