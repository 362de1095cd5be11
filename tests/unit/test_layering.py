"""The architecture, held over the syntax trees: imports run downhill, each runtime stays in its rooms.

A folder of sparktf is a room; what stands in `driver/` itself is a room for each file. docs/architecture.md draws them.
yarn/minihadoop stands alone: the cluster that tests sparktf shares no code, and so no mistake, with it. So do
the DAGs of yarn/schedules, which run in Airflow's environment.
"""

from __future__ import annotations

import ast
import graphlib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

BASE = {"root", "process", "results", "config", "wire"}
STORAGE = {"storage", "storage/file_systems", "storage/transactions"}
FEED = {"feed/arrays", "feed/formats"}
NODE = BASE | STORAGE | FEED | {"feed", "feed/channel"}
PLAN = BASE | STORAGE | FEED | {"statistics", "driver/plan"}
ATTEMPT = PLAN | {"driver/attempt/rows", "driver/attempt"}
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
    "console": {"root", "results", "wire"},
    "layers": {"root"},
    "storage": {"root"},
    "storage/hdfs": {"root", "storage"},
    "storage/file_systems": {"root", "storage", "storage/hdfs"},
    "storage/transactions": {"root", "results", "wire", "storage"},
    "published": {"root", "storage", "storage/transactions"},
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
    "driver/attempt": BASE | {"driver/plan", "driver/attempt/rows"},
    "driver/event_log": {"root", "results"},
    "driver/run_time": {"root", "results"},
    "driver/output": PLAN | {"driver/event_log"},
    "driver/commit": ATTEMPT,
    "driver/writer": BASE,
    "driver/gang": GANG,
    "driver/watch": WATCH,
    "driver/journal": BASE | {"console", "driver/event_log", "driver/gang"},
    "driver/hooks": PLAN | {"driver/gang"},
    "driver/run": RUN,
    "driver/spark": SPARK,
    "driver/source": SOURCE,
    "driver/check": SOURCE | {"driver/source", "driver/output"},
    "driver/spark_site": SOURCE | {"driver/source"},
    "nightly": PLAN | {"console", "published", "driver/gang", "driver/hooks"},
    "predict": SOURCE | {"driver/source", "published", "nightly"},
    "tfrecords": SOURCE | {"driver/source"},
    "compat": GANG | SPARK | {"driver/spark", "driver/spark_site", "tfrecords"},
    "compat/tensorflowonspark": GANG | {"compat", "driver/spark", "nightly", "predict", "tfrecords", "feed/channel"},
    "api": RUN | {"driver/code", "driver/run", "driver/spark_site", "nightly", "predict"},
    "ml": BASE | STORAGE | {"api", "predict", "driver/code", "driver/spark"},
    "main": BASE | {"api", "console", "driver/spark", "predict"},
    "trainer/model": MODEL - {"trainer/model"},
    "trainer/node": NODE | {"trainer/model"},
    "trainer/sync": NODE | {"trainer/model", "trainer/node"},
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
    "preview": SERVICE | {"driver/check", "driver/gang", "driver/output", "driver/spark", "runs", "submit"},
    "entry": BASE | STORAGE | {"api", "console", "predict", "driver/check", "nightly", "preview", "runs", "submit"},
    "jobs": BASE | {"main", "entry", "layers"},
}
ENTRY_MODULES = {"sparktf", "sparktf.cli"}

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
    "sparktf/cli.py",
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
    "sparktf/driver/attempt/asynchronous.py",
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
    "sparktf/storage/transactions/fence_watch.py",
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


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


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


def imports(path: Path) -> Iterator[Import]:
    """Yields every import of a file, also those in functions and under `if TYPE_CHECKING`."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        for module in imported_modules(node, path):
            yield Import(module, node.lineno, id(node) in typing_only)  # type: ignore[attr-defined]


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


@pytest.mark.parametrize("path", sources("sparktf", "jobs"), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_downhill(path: Path) -> None:
    room = room_of(module_of(path))
    allowed = MAY_IMPORT[room] | {room}
    uphill = [
        f"line {found.line}: {room} imports {found.module}"
        for found in imports(path)
        if is_in(found.module, {"sparktf", "jobs"}) and room_of(found.module) not in allowed
    ]
    assert not uphill


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


@pytest.mark.parametrize("path", sources("sparktf", "jobs"), ids=lambda path: str(path.relative_to(ROOT)))
def test_each_runtime_stays_in_its_rooms(path: Path) -> None:
    room, models = room_of(module_of(path)), "models" in path.parts
    forbidden = set() if room in SEE_PYSPARK and not models else set(PYSPARK)
    if room not in SEE_TENSORFLOW and not models:
        forbidden |= TENSORFLOW
    strangers = [
        f"line {found.line}: {found.module}"
        for found in imports(path)
        if is_in(found.module, forbidden) and not found.typing_only
    ]
    assert not strangers


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


@pytest.mark.parametrize("path", sources("yarn"), ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_beside_sparktf_stands_alone(path: Path) -> None:
    allowed = {*STANDS_ALONE[path.relative_to(ROOT).parts[1]], *sys.stdlib_module_names}
    assert not [f"line {found.line}: {found.module}" for found in imports(path) if not is_in(found.module, allowed)]


@pytest.mark.parametrize("path", sources("sparktf", "jobs", "yarn"), ids=lambda path: str(path.relative_to(ROOT)))
def test_only_entry_points_rule_their_process(path: Path) -> None:
    if str(path.relative_to(ROOT)) in ENTRY_POINTS:
        return
    forbidden = PROCESS_CALLS - WATCH_CALLS if room_of(module_of(path)).startswith("trainer") else PROCESS_CALLS
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    calls = [
        f"line {node.lineno}: {ast.unparse(node.func)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in forbidden
    ]
    assert not calls


def test_what_a_role_means_is_said_in_one_place() -> None:
    assert files_with(asked_roles) == MAY_ASK_FOR_ROLES


def test_what_a_strategy_means_is_said_in_one_table() -> None:
    assert files_with(named_strategies) == MAY_NAME_STRATEGIES
    assert not files_with(asked_strategies)


def files_with(found: Callable[[ast.AST], Iterator[str]]) -> set[str]:
    """Returns the files of sparktf and jobs in which there is any such place."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources("sparktf", "jobs")}
    return {str(path.relative_to(ROOT)) for path, tree in trees.items() if any(found(tree))}


def named_strategies(tree: ast.AST) -> Iterator[str]:
    """Yields where a strategy is named."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in STRATEGY_NAMES:
            yield f"line {node.lineno}: {node.value}"


def asked_strategies(tree: ast.AST) -> Iterator[str]:
    """Yields where is asked which strategy it is."""
    for node in ast.walk(tree):
        sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        sides += [node.subject] if isinstance(node, ast.Match) else []
        if any(ast.unparse(side).split(".")[-1] == "strategy" for side in sides):
            yield f"line {node.lineno}: {ast.unparse(node)}"  # type: ignore[attr-defined]


def asked_roles(tree: ast.AST) -> Iterator[str]:
    """Yields where a role or the first node is asked for by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Role":
            yield f"line {node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.Compare) and ast.unparse(node).endswith((".index == 0", ".index != 0", ".index > 0")):
            yield f"line {node.lineno}: {ast.unparse(node)}: ask for the leader"


def test_what_a_simulated_driver_runs_gets_time_and_threads_from_its_clock() -> None:
    found = [path for path in sources("sparktf") if room_of(module_of(path)) in RUNS_BY_THE_CLOCK]
    assert len(found) > len(RUNS_BY_THE_CLOCK)
    for path in [*found, *(ROOT / name for name in RUNS_BY_THE_CLOCK_TOO)]:
        assert not list(own_times(ast.parse(path.read_text(encoding="utf-8")))), path


def own_times(tree: ast.AST) -> Iterator[str]:
    """Yields where a file reads this machine's time, waits by it, or starts a thread."""
    for node in ast.walk(tree):
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
    monkeypatch.setattr("test_layering.ROOT", tmp_path)
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


def test_an_uphill_import_is_seen_wherever_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_layering.ROOT", tmp_path)
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


HOME_OF_FILE_SYSTEMS = "sparktf.storage.file_systems"
# File -> how often it opens file systems, each time with credentials and connections of their own. A process needs them
# once, where it begins, so that all of this may only become less.
OPENS_FILE_SYSTEMS = {
    "sparktf/api/trained.py": 1,
    "sparktf/cli.py": 1,
    "sparktf/compat/tensorflowonspark/tf_pipeline.py": 1,
    "sparktf/driver/check.py": 2,
    "sparktf/driver/source/record_frame.py": 1,
    "sparktf/driver/spark_site.py": 1,
    "sparktf/executor/measuring.py": 1,
    "sparktf/executor/record_rows.py": 2,
    "sparktf/executor/trainer_process.py": 1,
    "sparktf/executor/written_records.py": 1,
    "sparktf/ml/fitted.py": 3,
    "sparktf/nightly/mlflow_writer.py": 1,
    "sparktf/predict/dated.py": 1,
    "sparktf/predict/loaded.py": 1,
    "sparktf/preview/looking.py": 1,
    "sparktf/runs/finding.py": 1,
    "sparktf/submit/command.py": 4,
    "sparktf/tfrecords/writing.py": 1,
    "sparktf/trainer/node/place.py": 1,
    "sparktf/trainer/scoring.py": 1,
}


def test_no_further_place_opens_file_systems() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sources("sparktf", "jobs")}
    found = {str(path.relative_to(ROOT)): len(list(opened_file_systems(tree))) for path, tree in trees.items()}
    assert {name: times for name, times in found.items() if times} == OPENS_FILE_SYSTEMS


def opened_file_systems(tree: ast.AST) -> Iterator[str]:
    """Yields where a file opens file systems, or hands on what does; those that it is given, it does not open."""
    nodes = list(ast.walk(tree))
    froms = (node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == HOME_OF_FILE_SYSTEMS)
    names = {alias.name for node in froms for alias in node.names}
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
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


# What takes calls from other processes, and what runs what it reads: docs/security.md says of each who is let in.
LISTENS = re.compile(r"FlightServerBase|\.listen\(|HTTPServer|socketserver|distribute\.Server\(")
MAY_LISTEN = {
    "sparktf/driver/gang/control_server.py",
    "sparktf/executor/rendezvous.py",
    "sparktf/feed/channel/guest_feed.py",
    "sparktf/feed/channel/server.py",
    "sparktf/trainer/parameter_server/listening.py",
    "sparktf/trainer/parameter_server/membership/stand_ins.py",
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
    files = {path for path in sources("sparktf", "jobs") if does.search(path.read_text(encoding="utf-8"))}
    assert {str(path.relative_to(ROOT)) for path in files} == may
