"""Rules for every file of the repository that no tool checks."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from source_trees import ROOT, nodes, sources, tree_of

SUFFIXES = {".py", ".md", ".yaml", ".yml", ".toml", ".sh", ".xml", ".properties", ".json", ".cfg", ".txt"}
FOLDERS = ("sparktf", "jobs", "tests", "benchmarks", "docs", "yarn", ".ci")

DEVELOPER_PATH = re.compile(r"(?<![\w.])/(?:home|root|Users)/\w|file:///(?:home|root)")
PACKAGE_INDEX = re.compile(r"pypi\.org|pythonhosted\.org|--(?:extra-)?index-url")
MAX_LINES = 400
OF_EACH_FLAVOUR = {"ShardedEmbedding"}
"""Names that Keras 3 and tf_keras have one of each for."""
OF_EACH_MODULE = {"main", "run", "decide", "serve"}
"""What a program or a process does, and the one decision of a module of decisions: said with the module's name."""
AS_ELSEWHERE = {"Marker", "export_saved_model", "is_gpu_available", "single_node_env", "start"}
"""Names of TensorFlowOnSpark's that something else has too: its scripts use them."""
_NO_NOUN = re.compile(r"(?:(?:Returns|Yields) )?[Ww]hat\b")
_NO_NUMBER = re.compile(r"\b[Ss]o (?:many|much|long|often)\b")


def files() -> list[Path]:
    below = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    top = (path for path in ROOT.iterdir() if path.suffix in SUFFIXES or path.name in ("Makefile", ".gitignore"))
    return [path for path in (*top, *below) if path.is_file() and (path.suffix in SUFFIXES or not path.suffix)]


def offences(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_file_names_a_folder_of_one_developers_machine() -> None:
    assert not offences(DEVELOPER_PATH)


def test_no_file_names_a_package_index() -> None:
    assert not offences(PACKAGE_INDEX)


def test_no_file_is_what_a_merge_left_behind() -> None:
    assert not [
        str(path) for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".orig", ".rej")
    ]


def public_names() -> Iterator[tuple[str, str, str]]:
    """Yields each public class, function and alias of a module, with where it is, and what an alias stands for."""
    for path in sources("sparktf"):
        for node in tree_of(path).body:
            name, meaning = "", str(path.relative_to(ROOT))
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                name = node.name
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                name, meaning = ast.unparse(target), ast.unparse(node.value)
            if re.fullmatch(r"[A-Za-z][A-Za-z0-9]*[a-z]\w*", name):
                yield name, str(path.relative_to(ROOT)), meaning


def test_no_public_name_means_two_things() -> None:
    places, meanings = defaultdict(set), defaultdict(set)
    for name, place, meaning in public_names():
        places[name].add(place)
        meanings[name].add(meaning)
    told = {name: sorted(places[name]) for name, found in meanings.items() if len(found) > 1}
    allowed = OF_EACH_FLAVOUR | OF_EACH_MODULE | AS_ELSEWHERE
    assert not {name: found for name, found in told.items() if name not in allowed}, "give one of them another name"


def docstrings() -> Iterator[str]:
    """Yields each docstring of the product."""
    for path in sources("sparktf"):
        for node in nodes(tree_of(path)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (found := ast.get_docstring(node)):
                yield found


def test_docstrings_name_things_and_numbers() -> None:
    """Not "Returns what there is of ..." or "Waits for so many"."""
    assert not [text for text in docstrings() if _NO_NOUN.match(text) or _NO_NUMBER.search(text)]


def test_all_that_is_shown_goes_through_the_one_console_that_takes_no_text_for_markup() -> None:
    made = re.compile(r"(?<![\w.])Console\(")
    assert not [
        str(path.relative_to(ROOT))
        for path in sources("sparktf")
        if path.name != "plain_console.py"
        and made.search(path.read_text(encoding="utf-8").replace("Console().is_jupyter", ""))
    ]


def test_no_module_is_bloated() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for folder in ("sparktf", "yarn")
        for path in (ROOT / folder).rglob("*.py")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long, f"look for the seam: {long}"
