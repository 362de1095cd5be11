"""What sums gradients: by the configuration, the model's function and the nodes' devices."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparktf.config.job import JobConfig
from sparktf.config.nodes import ClusterConfig
from sparktf.driver.code.function_module import name_functions
from sparktf.driver.code.module import parameter_count
from sparktf.driver.gang.collectives import choose_collectives, chosen_for
from sparktf.errors import ConfigError

MODEL = """
def build(params, assets):
    ...

def train(node):
    ...

@decorated
def wrapped(params, assets):
    ...

def any_number(*args, **kwargs):
    ...

from elsewhere import imported
"""


@pytest.mark.parametrize(
    ("asked", "is_loop", "gpus", "chosen", "why"),
    [
        ("auto", False, (), "sparktf", "no node sees a GPU"),
        ("auto", True, (), "tensorflow", "node.strategy"),
        ("auto", None, (), "tensorflow", "does not tell"),
        ("auto", False, ("h2", "h1", "h2"), "tensorflow", "there are GPUs on h1, h2"),
        ("sparktf", None, ("h1",), "sparktf", "cluster.collectives is sparktf"),
        ("tensorflow", False, (), "tensorflow", "cluster.collectives is tensorflow"),
    ],
)
def test_the_choice_is_known_before_a_node_imports_the_model(
    asked: Any, is_loop: bool | None, gpus: tuple[str, ...], chosen: str, why: str
) -> None:
    found = chosen_for(ClusterConfig(collectives=asked), is_loop=is_loop, gpus=gpus)
    assert found.collectives == chosen
    assert why in found.why_collectives


def test_workers_that_are_too_few_are_refused_where_a_loss_ends_the_attempt_anyway() -> None:
    config = JobConfig(
        name="n",
        model="m:build",
        data={"path": "p", "inputs": {"x": "x"}, "targets": {"y": "y"}},  # type: ignore[arg-type]
        output={"path": "o"},  # type: ignore[arg-type]
        train={"min_workers": 2},  # type: ignore[arg-type]
    )
    said: list[str] = []
    seating: Any = SimpleNamespace(workers=("h1", "h2"), gpus=("h2",))
    site: Any = SimpleNamespace(is_loop=lambda config: False)
    with pytest.raises(ConfigError, match=r"^train.min_workers: 2 needs sparktf's own .* \(there are GPUs on h2\)$"):
        choose_collectives(seating, config, site, said.append)
    seating.gpus = ()
    assert choose_collectives(seating, config, site, said.append).collectives == "sparktf"


@pytest.mark.parametrize(
    ("function", "count"),
    [("build", 2), ("train", 1), ("wrapped", None), ("any_number", 2), ("imported", None), ("absent", None)],
)
def test_a_modules_text_tells_how_many_parameters_its_functions_take(
    function: str, count: int | None, tmp_path: Path
) -> None:
    (tmp_path / "counted_model.py").write_text(MODEL, encoding="utf-8")
    assert parameter_count("counted_model", function, [str(tmp_path)]) == count


def test_so_does_the_module_that_is_made_of_functions_of_a_program(tmp_path: Path) -> None:
    named = name_functions({"build": lambda params, assets: None, "train": lambda node: None}, tmp_path)
    places = {name: place.partition(":") for name, place in named.items()}
    counts = {name: parameter_count(module, made, [str(tmp_path)]) for name, (module, _, made) in places.items()}
    assert counts == {"build": 2, "train": 1}
