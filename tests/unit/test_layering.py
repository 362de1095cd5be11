"""The architecture, held over the syntax trees: imports run downhill, each runtime stays in its rooms.

A folder of sparktf is a room; so is each file that stands in `driver/` itself. The map: docs/inside/architecture.md.
yarn/minihadoop stands alone: the cluster that tests sparktf shares no code, and so no mistake, with it. So do
the DAGs of yarn/schedules, which run in Airflow's environment.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from source_trees import ROOT, nodes, sources, tree_of, where

BASE = {"root", "process", "results", "config", "wire"}
STORAGE = {"storage", "storage/file_systems", "storage/transactions"}
FEED = {"feed/arrays", "feed/formats"}
NODE = BASE | STORAGE | FEED | {"feed", "feed/channel"}
PLAN = BASE | STORAGE | FEED | {"statistics", "driver/plan"}
ATTEMPT = PLAN | {"driver/attempt/rows", "driver/attempt", "driver/lifecycle"}
GANG = ATTEMPT | {"console", "executor"}
WATCH = GANG | {"driver/gang", "driver/commit", "driver/writer"}
RUN = WATCH | {"driver/hooks", "driver/journal", "driver/output", "driver/run_time", "driver/watch"}
SPARK = NODE | {"executor", "driver/code", "driver/gang"}
SOURCE = PLAN | SPARK | {"driver/spark"}
SERVICE = PLAN | {"console", "published", "nightly"}
MODEL = BASE | {"feed/arrays", "layers", "trainer/model"}
SHARED = "trainer/parameter_server/shared_updates"
UPDATE = "trainer/parameter_server/update"
CHECKPOINT = "trainer/parameter_server/checkpoint"
MEMBERSHIP = "trainer/parameter_server/membership"

# Room -> rooms of sparktf that it may import besides itself. `entry` is what stands above all: the lazy public names
# and the console script. Nobody imports trainer.
MAY_IMPORT = {
    "root": set(),
    "process": {"root"},
    "results": {"root"},
    "config": {"root", "results"},
    "wire": {"root", "results", "config"},
    "commands": {"root"},
    "console": {"root", "results", "wire"},
    "layers": {"root"},
    "storage": {"root"},
    "storage/hdfs": {"root", "storage"},
    "storage/objects": {"root", "storage"},
    "storage/names": {"root", "storage", "storage/objects", "storage/transactions"},
    "storage/file_systems": {"root", "storage", "storage/hdfs", "storage/objects", "storage/names"},
    "storage/transactions": {"root", "results", "wire", "storage"},
    "published": {"root", "results", "wire", "storage", "storage/transactions"},
    "feed/arrays": {"root"},
    "feed/formats": {"root", "storage", "feed/arrays"},
    "feed": BASE | {"storage", "feed/arrays", "feed/formats"},
    "feed/channel": BASE | {"feed", "feed/arrays"},
    "statistics": {"root", "feed/arrays"},
    "executor": NODE | {"statistics"},
    "driver": set(),
    "driver/code": BASE,
    "driver/plan": BASE | STORAGE | FEED | {"statistics"},
    "driver/attempt/rows": BASE | {"driver/plan", "feed/channel"},
    "driver/attempt": BASE | {"driver/plan", "driver/attempt/rows", "driver/lifecycle"},
    "driver/lifecycle": {"root"},
    "driver/event_log": {"root", "results"},
    "driver/checkpoint_record": {"root", "results"},
    "driver/run_time": {"root", "results"},
    "driver/output": PLAN | {"driver/event_log"},
    "driver/commit": ATTEMPT | {"driver/checkpoint_record"},
    "driver/writer": BASE,
    "driver/gang": GANG,
    "driver/watch": WATCH,
    "driver/journal": BASE | {"console", "driver/event_log", "driver/gang"},
    "driver/hooks": PLAN | {"driver/gang"},
    "driver/run": RUN,
    "driver/spark": SPARK,
    "driver/source": SOURCE,
    "driver/run_checks": SOURCE | {"driver/source", "driver/output"},
    "driver/check": SOURCE | {"driver/source", "driver/run_checks"},
    "driver/spark_site": SOURCE | {"driver/source", "driver/run_checks"},
    "nightly": PLAN | {"console", "published", "driver/gang", "driver/hooks"},
    "predict": SOURCE | {"driver/source", "published", "nightly"},
    "tfrecords": SOURCE | {"driver/source"},
    "compat": GANG | SPARK | {"driver/spark", "driver/spark_site", "tfrecords"},
    "compat/tensorflowonspark": GANG | {"compat", "driver/spark", "nightly", "predict", "tfrecords", "feed/channel"},
    "api": RUN | {"driver/code", "driver/spark", "driver/run", "driver/spark_site", "nightly", "predict"},
    "ml": BASE | STORAGE | {"api", "predict", "driver/code", "driver/spark"},
    "driver/looked_at": GANG | SPARK | {"driver/plan", "driver/spark", "driver/spark_site"},
    "main": BASE | {"api", "console", "driver/looked_at", "driver/spark", "predict"},
    "trainer/model": MODEL - {"trainer/model"},
    "trainer/node": NODE | {"trainer/model"},
    "trainer/sync/exchange": {"root", "wire"},
    "trainer/sync": NODE | {"trainer/model", "trainer/node", "trainer/sync/exchange"},
    UPDATE: MODEL,
    SHARED: MODEL | {UPDATE},
    CHECKPOINT: NODE | {"trainer/model", "trainer/node"},
    MEMBERSHIP: NODE | {"trainer/model", "trainer/node"},
    "trainer/parameter_server": NODE
    | {"layers", "trainer/model", "trainer/node", UPDATE, SHARED, CHECKPOINT, MEMBERSHIP},
    "trainer": NODE | {"trainer/model", "trainer/node", "trainer/sync", "trainer/parameter_server"},
    "submit": BASE
    | STORAGE
    | {"console", "driver/code", "driver/plan", "driver/event_log", "driver/output", "driver/spark"},
    "runs": BASE | STORAGE | {"console", "driver/plan", "published", "nightly", "submit"},
    "preview": SERVICE
    | {"driver/check", "driver/run_checks", "driver/gang", "driver/output", "driver/spark", "runs", "submit"},
    "doctor": BASE | STORAGE | {"console", "driver/spark", "preview", "submit"},
    "entry": BASE
    | STORAGE
    | {
        "api",
        "commands",
        "console",
        "doctor",
        "predict",
        "driver/check",
        "driver/spark",
        "main",
        "nightly",
        "preview",
        "runs",
        "submit",
    },
    "jobs": BASE | {"main", "entry", "layers"},
}
ENTRY_MODULES = {"sparktf", "sparktf.__main__", "sparktf.commands.cli"}

PYSPARK = {"pyspark", "py4j"}
TENSORFLOW = {"tensorflow", "keras", "tf_keras"}
SEE_PYSPARK = {
    "compat",
    "compat/tensorflowonspark",
    "api",
    "tfrecords",
    "driver/spark",
    "driver/source",
    "driver/spark_site",
    "driver/looked_at",
    "main",
    "predict",
    "ml",
    "executor",
    "jobs",
}
SEE_TENSORFLOW = {"trainer", "trainer/sync", "trainer/parameter_server", "trainer/node", "trainer/model", "layers"}
SEE_TENSORFLOW |= {UPDATE, SHARED, CHECKPOINT, MEMBERSHIP}
SEE_TENSORFLOW |= {"api"}  # where a program asks for the model itself

# Files that may end the process, take signals or set up logging: each is the first code of a process.
ENTRY_POINTS = {
    "sparktf/__main__.py",
    "sparktf/commands/cli.py",
    "sparktf/compat/tensorflowonspark/__init__.py",  # the real package sets up logging when it is imported
    "sparktf/compat/tensorflowonspark/__main__.py",
    "sparktf/config/page.py",
    "sparktf/main.py",
    "sparktf/process/supported.py",
    "sparktf/nightly/errand.py",
    "sparktf/nightly/mlflow_writer.py",
    "sparktf/trainer/__main__.py",
    "sparktf/trainer/nursery.py",
    "sparktf/trainer/scoring.py",
    "jobs/predict.py",
    "jobs/train.py",
    "jobs/digits_lake.py",
    "jobs/clicks_lake.py",
    "yarn/minihadoop/__main__.py",
}
PROCESS_CALLS = {"sys.exit", "os._exit", "exit", "quit", "signal.signal", "logging.basicConfig", "SystemExit"}
# A thread that watches its process can end it in no other way; in the trainer, the process is ours.
WATCH_CALLS = {"os._exit"}


# Files that ask for a role or the first node: what these mean is said once, for all others. It may only get shorter.
MAY_ASK_FOR_ROLES = {
    "sparktf/topology.py",
    "sparktf/driver/gang/seating.py",
    "sparktf/driver/attempt/disciplines.py",
    "sparktf/driver/attempt/evaluation.py",
    "sparktf/trainer/life.py",
}
# Files that name strategies: the default, and one table in each runtime. Which it is nobody asks, these neither.
MAY_NAME_STRATEGIES = {
    "sparktf/config/nodes.py",
    "sparktf/config/strategies.py",
    "sparktf/driver/attempt/disciplines.py",
    "sparktf/trainer/life.py",
}
# What is no other word, too.
STRATEGY_NAMES = {"mirrored", "multi_worker_mirrored", "parameter_server"}


# Files that may ask for the format of files: those of one format, and the tables in which all others look it up.
MAY_ASK_FOR_FORMATS = (
    "sparktf/config/",
    "sparktf/feed/formats/",
    "sparktf/driver/plan/planned_formats.py",
    "sparktf/driver/source/record_frame.py",
    "sparktf/driver/source/spark_formats.py",
)
KEYS_OF_FORMATS = {"record_types", "record_sample"}
NAMES_OF_FORMATS = {"PARQUET", "TFRECORD", "READ_DIRECTLY", "FORMATS"}


# What also runs under a simulated clock: time and threads reach it through `sparktf.clock` alone.
RUNS_BY_THE_CLOCK = {
    "compat",
    "driver/gang",
    "driver/attempt",
    "driver/attempt/rows",
    "driver/run",
    "driver/watch",
    "driver/commit",
    "driver/journal",
    "driver/output",
}
RUNS_BY_THE_CLOCK_TOO = {
    "sparktf/storage/transactions/fence.py",
    "sparktf/storage/transactions/ownership.py",
    "sparktf/console/console.py",
}
TIME_CALLS = {"time.time", "time.monotonic", "time.sleep", "threading.Thread", "threading.Timer"}


@dataclass(frozen=True)
class Import:
    """One imported module; `typing_only` if it stands under `if TYPE_CHECKING`."""

    module: str
    line: int
    typing_only: bool


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def room_of(module: str) -> str:
    """Returns the room of a module of sparktf or jobs."""
    top, *below = module.split(".")
    if top == "jobs":
        return "jobs"
    if module in ENTRY_MODULES:
        return "entry"
    for length in (3, 2, 1):
        if (room := "/".join(below[:length])) in MAY_IMPORT:
            return room
    return "root" if not (ROOT / "sparktf" / Path(*below)).is_dir() and len(below) == 1 else "/".join(below)


@functools.cache
def imports(path: Path) -> list[Import]:
    """Returns every import of a file, also those in functions and under `if TYPE_CHECKING`."""
    tree = tree_of(path)
    typing_only = {
        id(inner)
        for node in nodes(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    return [
        Import(module, node.lineno, id(node) in typing_only)  # type: ignore[attr-defined]
        for node in nodes(tree)
        for module in imported_modules(node, path)
    ]


def imported_modules(node: ast.AST, path: Path) -> list[str]:
    """Returns what one statement imports; `from sparktf import feed` counts as sparktf.feed."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        package = module_of(path).split(".")[: len(path.relative_to(ROOT).parts) - node.level]
        base = ".".join([*package, *([base] if base else [])])
    return [submodule(base, alias.name) for alias in node.names]


def submodule(base: str, name: str) -> str:
    path = ROOT / Path(*base.split(".")) / name
    return f"{base}.{name}" if path.is_dir() or path.with_suffix(".py").is_file() else base


def is_in(module: str, packages: set[str]) -> bool:
    return module.partition(".")[0] in packages


def test_imports_run_downhill() -> None:
    assert not where(uphill, sources("sparktf", "jobs"))


def uphill(path: Path) -> list[str]:
    """Returns the imports of a room that its own may not see."""
    room = room_of(module_of(path))
    allowed = MAY_IMPORT[room] | {room}
    return [
        f"line {found.line}: {room} imports {found.module}"
        for found in imports(path)
        if is_in(found.module, {"sparktf", "jobs"}) and room_of(found.module) not in allowed
    ]


def test_no_files_import_each_other_in_a_circle() -> None:
    assert not circles(import_graph())


def import_graph() -> dict[str, set[str]]:
    """Returns which modules of sparktf each of them imports, wherever in the file."""
    files = {module_of(path): path for path in sources("sparktf")}
    return {module: {i.module for i in imports(path)} & files.keys() for module, path in files.items()}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Returns the modules that reach each other: a circle is read as a whole, or not at all."""
    reached = {module: reach(graph, module) for module in graph}
    rings = {frozenset(other for other in found if module in reached[other]) for module, found in reached.items()}
    return sorted(sorted(ring) for ring in rings if len(ring) > 1)


def reach(graph: dict[str, set[str]], start: str) -> set[str]:
    """Returns what a module imports, and what that imports, and so on."""
    found: set[str] = set()
    left = [start]
    while left:
        new = graph.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def test_each_runtime_stays_in_its_rooms() -> None:
    assert not where(strangers, sources("sparktf", "jobs"))


def strangers(path: Path) -> list[str]:
    """Returns the imports of Spark and TensorFlow by a room that sees neither, or not this one."""
    room, models = room_of(module_of(path)), "models" in path.parts
    forbidden = set() if room in SEE_PYSPARK and not models else set(PYSPARK)
    if room not in SEE_TENSORFLOW and not models:
        forbidden |= TENSORFLOW
    return [
        f"line {found.line}: {found.module}"
        for found in imports(path)
        if is_in(found.module, forbidden) and not found.typing_only
    ]


ROOMS = sorted({path.parent for path in sources("sparktf")} - {ROOT / "sparktf"})


def test_the_walls_leave_no_way_round() -> None:
    assert list(graphlib.TopologicalSorter(MAY_IMPORT).static_order())
    pairs = [(room, other) for room, allowed in MAY_IMPORT.items() for other in allowed]
    assert not [pair for pair in pairs if pair[1].startswith("trainer") and not pair[0].startswith("trainer")]
    assert not [pair for pair in pairs if pair[1] == "trainer"]


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in sources("sparktf")} - {ROOT / "sparktf"}), ids=lambda path: path.name
)
def test_a_room_says_what_belongs_in_it_and_what_never_does(folder: Path) -> None:
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert said is not None
    assert "import" in said
    assert "ever " in said or "Nobody" in said
    assert len(said.splitlines()) > 1


def test_no_two_modules_share_a_name() -> None:
    names = [path.stem for path in sources("sparktf") if not path.stem.startswith("__")]
    assert sorted(names) == sorted(set(names))


# Folder of yarn/ -> what it may import besides Python's own library.
STANDS_ALONE = {"minihadoop": {"minihadoop", "rich"}, "schedules": {"airflow", "sparktf_airflow"}}


def test_what_is_beside_sparktf_stands_alone() -> None:
    assert not where(further_imports, sources("yarn"))


def further_imports(path: Path) -> list[str]:
    """Returns the imports of a file of yarn/ that it is to do without."""
    allowed = {*STANDS_ALONE[path.relative_to(ROOT).parts[1]], *sys.stdlib_module_names}
    return [f"line {found.line}: {found.module}" for found in imports(path) if not is_in(found.module, allowed)]


def test_only_entry_points_rule_their_process() -> None:
    others = [path for path in sources("sparktf", "jobs", "yarn") if str(path.relative_to(ROOT)) not in ENTRY_POINTS]
    assert not where(process_calls, others)


def process_calls(path: Path) -> list[str]:
    """Returns the calls that only an entry point makes."""
    forbidden = PROCESS_CALLS - WATCH_CALLS if room_of(module_of(path)).startswith("trainer") else PROCESS_CALLS
    return [
        f"line {node.lineno}: {ast.unparse(node.func)}"
        for node in nodes(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in forbidden
    ]


def test_what_a_role_means_is_said_in_one_place() -> None:
    assert files_with(asked_roles) == MAY_ASK_FOR_ROLES


def test_what_a_strategy_means_is_said_in_one_table() -> None:
    assert files_with(named_strategies) == MAY_NAME_STRATEGIES
    assert not files_with(asked_strategies)


def files_with(found: Callable[[ast.AST], Iterator[str]]) -> set[str]:
    """Returns the files of sparktf and jobs in which there is any such place."""
    trees = {path: tree_of(path) for path in sources("sparktf", "jobs")}
    return {str(path.relative_to(ROOT)) for path, tree in trees.items() if any(found(tree))}


def named_strategies(tree: ast.AST) -> Iterator[str]:
    """Yields where a strategy is named."""
    for node in nodes(tree):
        if isinstance(node, ast.Constant) and node.value in STRATEGY_NAMES:
            yield f"line {node.lineno}: {node.value}"


def asked_strategies(tree: ast.AST) -> Iterator[str]:
    """Yields where is asked which strategy it is."""
    for node in nodes(tree):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        sides += [node.subject] if isinstance(node, ast.Match) else []
        if any(ast.unparse(side).split(".")[-1] == "strategy" for side in sides):
            yield f"line {node.lineno}: {ast.unparse(node)}"  # type: ignore[attr-defined]


def asked_roles(tree: ast.AST) -> Iterator[str]:
    """Yields where a role or the first node is asked for by name."""
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Role":
            yield f"line {node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.Compare) and ast.unparse(node).endswith((".index == 0", ".index != 0", ".index > 0")):
            yield f"line {node.lineno}: {ast.unparse(node)}: ask for the leader"


def test_what_a_format_means_is_said_in_its_tables() -> None:
    paths = sources("sparktf", "jobs")
    others = [path for path in paths if not str(path.relative_to(ROOT)).startswith(MAY_ASK_FOR_FORMATS)]
    assert not where(lambda path: asked_formats(tree_of(path)), others)


def asked_formats(tree: ast.AST) -> Iterator[str]:
    """Yields where a format is told from another one: by its name, or by what the plan knows of its files alone."""
    for node in nodes(tree):
        what = ast.unparse(node) if isinstance(node, (ast.Attribute, ast.Compare, ast.match_case)) else ""
        by_key = isinstance(node, ast.Attribute) and node.attr in KEYS_OF_FORMATS
        if by_key or (isinstance(node, ast.Constant) and node.value in KEYS_OF_FORMATS):
            yield f"line {node.lineno}: {what or ast.unparse(node)}"  # type: ignore[attr-defined]
        if isinstance(node, ast.Compare) and any(map(is_format, [node.left, *node.comparators])):
            yield f"line {node.lineno}: {what}"
        if isinstance(node, ast.Match) and is_format(node.subject):
            yield f"line {node.lineno}: match {ast.unparse(node.subject)}"


def is_format(node: ast.expr) -> bool:
    """Whether an expression is a format, or the name of one."""
    last = ast.unparse(node).rpartition(".")[2]
    return last in NAMES_OF_FORMATS or (isinstance(node, ast.Attribute) and last == "format")


def test_what_a_simulated_driver_runs_gets_time_and_threads_from_its_clock() -> None:
    found = [path for path in sources("sparktf") if room_of(module_of(path)) in RUNS_BY_THE_CLOCK]
    assert len(found) > len(RUNS_BY_THE_CLOCK)
    for path in [*found, *(ROOT / name for name in RUNS_BY_THE_CLOCK_TOO)]:
        assert not list(own_times(tree_of(path))), path


def own_times(tree: ast.AST) -> Iterator[str]:
    """Yields where a file reads this machine's time, waits by it, or starts a thread."""
    for node in nodes(tree):
        what = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        if what in TIME_CALLS or (what.endswith(".wait") and "clock" not in what):
            yield f"line {node.lineno}: {what}"  # type: ignore[attr-defined]


def test_time_is_seen_wherever_it_is_read() -> None:
    text = "x = field(default=time.time)\nchanged.wait(1)\nself._clock.wait(changed, 1)"
    assert sorted(own_times(ast.parse(text))) == ["line 1: time.time", "line 2: changed.wait"]


def test_a_role_is_seen_wherever_it_is_asked_for() -> None:
    text = "if node.role is Role.PS:\n    first = spec.node.index == 0"
    assert [found.partition(": ")[2] for found in asked_roles(ast.parse(text))] == [
        "Role.PS",
        "spec.node.index == 0: ask for the leader",
    ]


@pytest.mark.parametrize(
    "text", ["config.cluster.strategy in ('a',)", "'a' == self.strategy", "match strategy:\n    case 'a':\n        f()"]
)
def test_a_strategy_is_seen_wherever_it_is_asked_for(text: str) -> None:
    assert list(asked_strategies(ast.parse(text))) == [f"line 1: {text}"]
    assert list(named_strategies(ast.parse("f(x='mirrored')"))) == ["line 1: mirrored"]


def test_a_circle_is_seen_however_long_and_wherever_its_imports_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("test_layering", "source_trees"):
        monkeypatch.setattr(f"{module}.ROOT", tmp_path)
    texts = {
        "a": "def f():\n    from sparktf import b\n",
        "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import sparktf.c\n",
        "c": "from .a import f\nfrom . import e",
        "d": "from sparktf import a, d",
        "e": "import sys",
    }
    (tmp_path / "sparktf").mkdir()
    for name, text in texts.items():
        (tmp_path / "sparktf" / f"{name}.py").write_text(text, encoding="utf-8")
    assert circles(import_graph()) == [["sparktf.a", "sparktf.b", "sparktf.c"]]


def test_a_format_is_seen_wherever_it_is_asked_for() -> None:
    text = (
        "if data.format == 'csv' or kind is formats.TFRECORD or kind in READ_DIRECTLY:\n    x = spec.record_types\n"
        "match config.data.format:\n    case 'csv':\n        y = getattr(spec, 'record_types')\n"
        "reader = format_of(spec).new_reader\nload = spark.read.format('csv').load\n"
    )
    assert sorted(asked_formats(ast.parse(text))) == [
        "line 1: data.format == 'csv'",
        "line 1: kind in READ_DIRECTLY",
        "line 1: kind is formats.TFRECORD",
        "line 2: spec.record_types",
        "line 3: match config.data.format",
        "line 5: 'record_types'",
    ]


def test_an_uphill_import_is_seen_wherever_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("test_layering", "source_trees"):
        monkeypatch.setattr(f"{module}.ROOT", tmp_path)
    (tmp_path / "sparktf" / "trainer").mkdir(parents=True)
    (tmp_path / "sparktf" / "feed").mkdir()
    source = tmp_path / "sparktf" / "feed" / "x.py"
    source.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from sparktf.driver import run\n"
        "def f():\n    from .. import trainer\n    import pyspark.sql\n",
        encoding="utf-8",
    )
    assert [(found.module, found.typing_only) for found in imports(source)] == [
        ("typing", False),
        ("sparktf.driver", True),
        ("sparktf.trainer", False),
        ("pyspark.sql", False),
    ]
    assert [room_of(found.module) for found in imports(source)][2] == "trainer"
    assert room_of("sparktf.driver.run") == "driver/run"
    assert room_of("sparktf.driver.plan.files") == "driver/plan"
    assert room_of("sparktf.errors") == "root"


# What reaches into the driver's JVM: py4j's privates, Scala's collections, classes behind the gateway, and what jvm.py
# has of these for the two files beside it alone.
REACHES_INTO_THE_JVM = re.compile(
    r"\b_j(vm|sc|df|rdd|map|seq|sparkSession|wrapped)\b|\b_gateway\b|\bscala\b|\bscala_context\b|\bjava\(\)|[\w)]\.(?:org\.(?:apache|ietf)|java\.(?:lang|io))\."
)
MAY_REACH_INTO_THE_JVM = {
    "sparktf/driver/spark/jvm.py",
    "sparktf/driver/spark/jvm_batches.py",
    "sparktf/driver/spark/jvm_executors.py",
    "sparktf/driver/spark/jvm_login.py",
    "sparktf/driver/spark/jvm_plans.py",
    "sparktf/driver/spark/jvm_store_keys.py",
    "sparktf/driver/spark/jvm_tokens.py",
}
# What goes through Spark's plans, object by object: all else is told of files, columns and versions.
WALKS_PLANS = re.compile(r"\b(class_of|physical_plan|analyzed_plan)\(")
MAY_WALK_PLANS = {
    "sparktf/driver/spark/jvm.py",
    "sparktf/driver/spark/jvm_plans.py",
    "sparktf/driver/source/scan.py",
    "sparktf/driver/source/scan_filter.py",
    "sparktf/driver/source/table_files.py",
    "sparktf/driver/source/table_version.py",
}


@pytest.mark.parametrize(
    ("does", "may"),
    [(REACHES_INTO_THE_JVM, MAY_REACH_INTO_THE_JVM), (WALKS_PLANS, MAY_WALK_PLANS)],
    ids=["objects", "plans"],
)
def test_the_jvm_is_reached_into_in_one_place(does: re.Pattern[str], may: set[str]) -> None:
    assert files_that(does) == may


def test_what_reaches_into_the_jvm_is_seen() -> None:
    for line in ("df._jdf.queryExecution()", "jvm.org.apache.spark.util.Utils.getProcessName()", "jvm.scala.Option"):
        assert REACHES_INTO_THE_JVM.search(line)
    assert not REACHES_INTO_THE_JVM.search('"org.apache.spark.sql.execution.ProjectExec"  # Scala\'s')


ASKS_SPARKS_VERSION = re.compile(
    r"\bpyspark\.__version__|import_module\(\"pyspark\"\)|(?<!apache\.)\b(?:spark|sparkContext|context|sc)\.version\b"
    r"|spark-core_|version\(\"pyspark\"\)|SPARK_VERSION"
)
MAY_ASK_SPARKS_VERSION = {"sparktf/driver/spark/differences.py"}


def test_sparks_version_is_asked_in_one_place() -> None:
    assert files_that(ASKS_SPARKS_VERSION) == MAY_ASK_SPARKS_VERSION
    assert not tried_imports()


# What one of the supported Sparks lacks, or wants in another way.
DIFFERS = re.compile(
    r"\bpyspark\.logger\b|\.toArrow\(|\bfromDDL\b|\bsql\.array_position\(|_parse_datatype_string|\bjavaapi\b"
    r"|createDataFrame\(\w*(?:pa\.|[tT]able)|(?:save|load)Metadata\((?!.*for_metadata)"
)


def test_what_differs_between_sparks_is_called_in_one_place() -> None:
    assert files_that(DIFFERS) == MAY_ASK_SPARKS_VERSION
    for line in ("spark.createDataFrame(pa.table(columns))", "t.DataType.fromDDL(ddl)", "loadMetadata(path, spark)"):
        assert DIFFERS.search(line)
    assert not DIFFERS.search("DefaultParamsReader.loadMetadata(path, for_metadata(spark))")


def tried_imports() -> set[str]:
    """Returns the files that try an import of pyspark's, and do without it where it fails."""
    return {
        str(path.relative_to(ROOT))
        for path in sources("sparktf", "jobs")
        for node in nodes(tree_of(path))
        if isinstance(node, ast.Try)
        and any(is_in(module, PYSPARK) for part in node.body for module in imported_modules(part, path))
    }


def test_a_users_name_is_asked_for_in_one_place_which_does_without() -> None:
    """Clusters of pods run containers by ids that have no name, of which getpass and pwd make an error."""

    def asks(path: Path) -> Iterator[str]:
        imported = (module for node in nodes(tree_of(path)) for module in imported_modules(node, path))
        return (module for module in imported if module.partition(".")[0] in ("getpass", "pwd", "grp"))

    assert list(where(asks, sources("sparktf", "jobs"))) == ["sparktf/storage/credentials.py"]


# What a master's address means is said in `masters`; the configuration, which is below, says what may be written.
MAY_LOOK_AT_MASTERS = {"sparktf/driver/spark/masters.py", "sparktf/config/submit.py"}
LOOKS = {"startswith", "endswith", "match", "fullmatch", "search", "partition", "split", "removeprefix"}
KIND = re.compile(r"^(yarn|local|local\W.*|local-cluster.*|spark:.*|k8s.*)$")


def test_the_kind_of_a_master_is_told_by_the_master() -> None:
    found = where(lambda path: looked_at_masters(tree_of(path)), sources("sparktf", "jobs"))
    assert found.keys() <= MAY_LOOK_AT_MASTERS, found


def looked_at_masters(tree: ast.AST) -> Iterator[str]:
    """Yields where the address of a master is looked at: compared, matched, or taken apart."""
    for node in nodes(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            parts = [] if ast.unparse(node.comparators[0]) == "None" else [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOOKS:
            parts = [node.func.value, *node.args]
        if any(is_master(part) for part in parts) and not all(isinstance(part, ast.Constant) for part in parts):
            yield f"line {node.lineno}: {ast.unparse(node)}"  # type: ignore[attr-defined]


def is_master(part: ast.expr) -> bool:
    """Whether an expression is a master's address, or a kind of these."""
    if isinstance(part, ast.Constant):
        return isinstance(part.value, str) and KIND.match(part.value) is not None
    if isinstance(part, ast.Tuple | ast.List | ast.Set):
        return any(is_master(element) for element in part.elts)
    return re.search(r"(?:^|\.|\()master\b(?!\.(?!url))|'spark\.master'", ast.unparse(part)) is not None


def test_a_kind_of_master_is_asked_for_in_tables_alone() -> None:
    kinds = re.compile(r"driver\.spark\.masters import [^\n]*\b(?:Yarn|Local|LocalCluster|Standalone)\b")
    assert files_that(kinds) == {"sparktf/submit/cluster_manager.py"}


def test_a_master_is_seen_wherever_it_is_looked_at() -> None:
    for line in (
        "str(spark.sparkContext.master).startswith('local')",
        "config.submit.master == wanted",
        "url.startswith('yarn')",
        "kind in ('yarn', 'k8s')",
        "_LOCAL.match(conf.get('spark.master') or '')",
        "slots.master.url[:4] == 'yarn'",
    ):
        assert list(looked_at_masters(ast.parse(line))), line
    for line in ("slots.master.one_machine", "job == 'master'", "submit.master is None", "text.startswith('yarn.')"):
        assert not list(looked_at_masters(ast.parse(line))), line


def files_that(pattern: re.Pattern[str]) -> set[str]:
    """Returns the files of the product in which a pattern is found."""
    found = (path for path in sources("sparktf", "jobs") if pattern.search(path.read_text(encoding="utf-8")))
    return {str(path.relative_to(ROOT)) for path in found}


# File -> how often it renames, replaces or deletes what lies in a storage, beside `storage/transactions`, where what
# readers and other drivers see is changed: whole, or not at all. All of this may only become less.
CHANGES_WHAT_IS_STORED = {"pruning.py": 4, "release.py": 1, "written_frame.py": 1}


def test_what_others_see_is_changed_by_transactions_alone() -> None:
    paths = [path for path in sources("sparktf", "jobs") if room_of(module_of(path)).partition("/")[0] != "storage"]
    found = {path.name: len(list(changes(tree_of(path)))) for path in paths}
    assert {name: times for name, times in found.items() if times} == CHANGES_WHAT_IS_STORED


def changes(tree: ast.AST) -> Iterator[str]:
    """Yields where something that is stored may go, or get another name."""
    for node in nodes(tree):
        call = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if re.search(r"storage(\(.*\))?\.(rename|replace|delete)$", call):
            yield f"line {node.lineno}: {call}"  # type: ignore[attr-defined]


def test_a_change_of_what_is_stored_is_seen() -> None:
    text = "self._storage.rename(a, b)\nstorage.delete(a)\nopen_storage(a).replace(a, b)\ntext.replace('a', 'b')\n"
    assert [found.partition(":")[0] for found in changes(ast.parse(text))] == ["line 1", "line 2", "line 3"]


HOME_OF_FILE_SYSTEMS = "sparktf.storage.file_systems"
# File -> how often it opens file systems, each time with credentials and connections of their own. A process needs them
# once, where it begins.
OPENS_FILE_SYSTEMS = {
    "sparktf/api/trained.py": 1,  # a program of the user's that has a run's result alone, and no session
    "sparktf/driver/spark/ticket.py": 1,  # a command
    "sparktf/driver/spark/application.py": 1,  # a driver, or a program of the user's with a session
    "sparktf/executor/handed_tokens.py": 1,  # a task of Spark's, by what its closure has
    "sparktf/executor/trainer_process.py": 1,  # an agent, which learns where to store from the trainer's specification
    "sparktf/nightly/mlflow_writer.py": 1,  # the process that tells MLflow
    "sparktf/trainer/node/place.py": 1,  # a trainer
    "sparktf/trainer/scoring.py": 1,  # the process that scores
}


def test_no_further_place_opens_file_systems() -> None:
    trees = {path: tree_of(path) for path in sources("sparktf", "jobs")}
    found = {str(path.relative_to(ROOT)): len(list(opened_file_systems(tree))) for path, tree in trees.items()}
    assert {name: times for name, times in found.items() if times} == OPENS_FILE_SYSTEMS


def opened_file_systems(tree: ast.AST) -> Iterator[str]:
    """Yields where a file opens file systems, or hands on what does; those that it is given, it does not open."""
    froms = (node for node in nodes(tree) if isinstance(node, ast.ImportFrom) and node.module == HOME_OF_FILE_SYSTEMS)
    names = {alias.name for node in froms for alias in node.names}
    called = {id(node.func) for node in nodes(tree) if isinstance(node, ast.Call)}
    for node in nodes(tree):
        if isinstance(node, ast.Name) and node.id in names and (id(node) in called or node.id.islower()):
            yield f"line {node.lineno}: {node.id}"


def test_a_place_that_opens_file_systems_is_seen() -> None:
    text = (
        "from sparktf.storage.file_systems import FileSystems, normalise\n"
        "def f(systems: FileSystems, open_storage):\n    return open_storage(systems.normalise(x))\n"
        "a = FileSystems(conf).open(x)\n"
        "normalised(config, normalise)\n"
    )
    assert sorted(opened_file_systems(ast.parse(text))) == ["line 4: FileSystems", "line 5: normalise"]


# What takes calls from other processes, and what runs what it reads. docs/cluster/security.md: who is let in by each.
LISTENS = re.compile(r"FlightServerBase|\.listen\(|HTTPServer|socketserver|distribute\.Server\(")
MAY_LISTEN = {
    "sparktf/trainer/sync/exchange/meeting.py",
    "sparktf/driver/gang/control_server.py",
    "sparktf/process/ports.py",  # for `sparktf doctor --nodes`; it takes no connection from the kernel
    "sparktf/process/rendezvous.py",
    "sparktf/feed/channel/guest_feed.py",
    "sparktf/feed/channel/server.py",
    "sparktf/trainer/parameter_server/ps.py",
    "sparktf/trainer/parameter_server/membership/doors.py",
}
UNPICKLES = re.compile(r"pickle\.loads?\(|allow_pickle=True|marshal\.loads?\(|shelve|joblib")
MAY_UNPICKLE = {
    "sparktf/driver/code/function_module.py",  # a file beside it, which only its user can write
    "sparktf/executor/detached_agent.py",  # its stdin
    "sparktf/executor/measuring.py",  # what a task of ours has sent through Spark
}


@pytest.mark.parametrize(
    ("does", "may"), [(LISTENS, MAY_LISTEN), (UNPICKLES, MAY_UNPICKLE)], ids=["listen", "unpickle"]
)
def test_nothing_else_listens_or_unpickles(does: re.Pattern[str], may: set[str]) -> None:
    assert files_that(does) == may
