"""A configuration that somebody got wrong is one error of one line that names the key; never a traceback."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from fuzz.cases import cases
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from sparktf.config.job import JobConfig
from sparktf.config.load import dump_config, parse_config
from sparktf.errors import ConfigError

TEXTS = tuple(path.read_text() for path in sorted((Path(__file__).parents[2] / "jobs" / "conf").glob("*.yaml")))
FULL = """\
name: full
model: models.churn:build
params: {learning_rate: 0.001, layers: [1, 2], nested: {deep: [{a: null}]}}
data:
  path: /lake/customers
  where: date > '{{date-30}}' AND date <= '{{date}}'
  inputs:
    age: age
    words: {columns: words, shape: [64], pad: 0, truncate: true, mask: words_there}
    tags: {columns: user.tags, ragged: true}
    packed: {columns: [a, "pixel_*"], dtype: float64}
  targets: {churned: churned}
  sample_weight: {churned: weight}
  fill_null: {age: 0, user.tags: none}
  max_bad_rows: 5
  validation: {where: "date = '{{date}}'"}
  rebalance: false
cluster: {workers: 4, node_ports: 30000-30100}
train: {epochs: 3, batch_size: 4096, max_steps: 7}
checkpoint: {every_steps: 5, every_seconds: 1e2}
output: {path: /models/runs}
timeouts: {heartbeat: 3}
security: {tls: "on"}
submit: {conf: {spark.x: y}, py_files: [a.py]}
"""
WORDS = ("a", "data", "path", "inputs", "Name", "no", "1", "null", "", " ", "é", "{{date}}", "a.b", "x: y", "<<")

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 10**400, -(10**30), 65536, float("inf"), float("nan"), 1e-300, "1" * 500])
    | st.floats()
    | st.sampled_from(
        [*WORDS, "on", "off", "{{", "{{name}}", "{{date+999999}}", "{{date-x}}", "\0", "2026-11-20", "a:b"]
    )
    | st.text(max_size=8)
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=5,
)
SNIPPETS = (
    "&a ",
    "*a",
    "<<: *a\n",
    "&a [*a, *a]",
    "!!python/object:os.system {}",
    "? [x]\n: y\n",
    "---\n",
    "%YAML 1.1\n",
    "\t",
    ": ",
    "- ",
    "{",
    "]",
    "'",
    '"',
    "|\n",
    "#",
    "\n",
    "\x07",
    "\ud800",
    "0x" + "f" * 300,
    "9" * 5000,
    "1e999",
    "2001-01-01",
    "[" * 1500,
    "data: {}\n",
    "zzz: 1\n",
)


class Wrong(NamedTuple):
    """A configuration with one thing changed.

    Attributes:
        key: What was changed; () for a text that was.
    """

    text: str
    key: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    date: str | None = None


def paths_of(value: Any, key: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the keys of all that is in a mapping."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*key, name)
            yield from paths_of(inner, (*key, name))


@st.composite
def wrong_trees(draw: DrawFn) -> Wrong:
    """Draws a configuration of which one key is gone, new, or has another value."""
    tree = copy.deepcopy(yaml.safe_load(draw(st.sampled_from((*TEXTS, FULL)))))
    key = draw(st.sampled_from(list(paths_of(tree))))
    *above, last = key
    section = tree
    for name in above:
        section = section[name]
    change = draw(st.sampled_from(("value", "gone", "new")))
    if change == "gone":
        del section[last]
    elif change == "new":
        last = draw(st.sampled_from(("workerz", *WORDS)) | st.text("abDé_.", max_size=5))
        section[last] = draw(JUNK)
    else:
        section[last] = draw(JUNK)
    text = yaml.safe_dump(
        tree, allow_unicode=draw(st.booleans()), default_flow_style=draw(st.sampled_from((None, True)))
    )
    return Wrong(text, (*above, last), date="2026-11-20")


@st.composite
def wrong_texts(draw: DrawFn) -> Wrong:
    """Draws a configuration with letters gone, doubled or put in."""
    text = draw(st.sampled_from((*TEXTS, FULL)))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        stop = start + draw(st.integers(0, 30))
        put = draw(st.sampled_from(SNIPPETS) | st.text(max_size=3) | st.just(text[start:stop] * 2))
        text = text[:start] + put + text[stop:]
    return Wrong(text, date=draw(st.sampled_from((None, "2026-11-20", "2026-02-30", ""))))


@st.composite
def wrong_overrides(draw: DrawFn) -> Wrong:
    """Draws `--set` arguments, of which some name keys that there are."""
    text = draw(st.sampled_from((*TEXTS, FULL)))
    known = [".".join(key) for key in paths_of(yaml.safe_load(text))]
    names = st.sampled_from([*known, "data", "a.b.c", "", ".", "params.x.y", "data.fill_null.a.b", "train.epochs.x"])
    values = JUNK.map(lambda value: yaml.safe_dump(value, default_flow_style=True).strip()) | st.sampled_from(SNIPPETS)
    made = draw(st.lists(st.tuples(names, values).map("=".join) | st.text(max_size=6), min_size=1, max_size=2))
    return Wrong(text, overrides=tuple(made), date="2026-11-20")


@cases(wrong_trees() | wrong_texts() | wrong_overrides(), weight=4)
def test_it_is_a_configuration_or_one_line_that_names_the_key(case: Wrong) -> None:
    try:
        config = parse_config(case.text, case.overrides, case.date, source="my.yaml")
    except ConfigError as error:
        said = str(error)
        assert said.isprintable(), said
        assert said.startswith(("my.yaml: ", "--set ", "--date ")), said
        assert not case.key or is_named(case.key, said), said
        return
    check_round_trip(config)


def is_named(key: tuple[str, ...], said: str) -> bool:
    """Whether an error says where the change is: by its key or by one around it; or as YAML, by its line."""
    dotted = {".".join(key[:n]) for n in range(1, len(key) + 1)}
    return any(name in said for name in (*dotted, key[-1])) or ": line " in said


def check_round_trip(config: JobConfig) -> None:
    """What is written out means the same when it is read again."""
    again = parse_config(dump_config(config), date="2026-11-20")
    assert plain(again.model_dump()) == plain(config.model_dump())


def plain(value: Any) -> Any:
    """Returns a value in which NaN equals NaN, and 1 is not True."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return repr(value)
