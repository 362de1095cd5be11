"""Configurations of programs and notebooks: from keywords, functions and a Spark session. Above the driver."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from sparktf.api.keras_words import INSTEAD
from sparktf.api.trained import TrainedRun
from sparktf.config.data_section import DataConfig
from sparktf.config.job import JobConfig
from sparktf.config.nodes import ClusterConfig
from sparktf.config.section import Section
from sparktf.config.train import TrainConfig
from sparktf.driver.code.function_module import UserFunction, name_functions
from sparktf.driver.code.given_objects import given_callbacks, given_model, kept_by
from sparktf.driver.spark.masters import master_of
from sparktf.errors import ConfigError
from sparktf.predict.loaded import LoadedModel
from sparktf.wire.keras_objects import GivenCallbacks

_SECTIONS: dict[str, type[Section]] = {"data": DataConfig, "train": TrainConfig, "cluster": ClusterConfig}
"""Whose settings may be keywords by themselves; no two of them have a setting of one name."""


def program_config(
    spark: SparkSession,
    model: UserFunction | str | Any,
    keywords: Mapping[str, Any],
    say: Callable[[str], None],
    *,
    prepare: UserFunction | None = None,
) -> JobConfig:
    """Returns the configuration given by keywords.

    Args:
        model: The function that returns the compiled model, its name as `module:function`, or a compiled model.
        keywords: Sections of the configuration, as mappings, and settings of `data`, `train` and `cluster` by
            themselves: `epochs=3`.
        say: Called with a line about defaults.
        prepare: The function of that name, where `model` is a function.

    Raises:
        ConfigError: a keyword is unknown, or the configuration does not fit together.
    """
    sections = _sections(keywords)
    folder = functions_folder(spark)
    train = sections.get("train")
    callbacks = train.get("callbacks") if isinstance(train, Mapping) else None
    if callbacks is not None and not isinstance(callbacks, str) and not callable(callbacks):
        callbacks = given_callbacks(callbacks)
    named = _named(model, prepare, callbacks, folder)
    if "callbacks" in named.names:
        kept = kept_by(callbacks) if isinstance(callbacks, GivenCallbacks) else {}
        kept = {} if "keep" in sections["train"] else kept
        sections["train"] = {**kept, **sections["train"], "callbacks": named.names["callbacks"]}
    made = _validated({"model": named.names[named.model], "name": named.model, **sections}, spark, say)
    return made.in_folder(folder) if named.is_made else made


class _Named(NamedTuple):
    """The functions of a configuration."""

    model: str  # The model's own name
    names: dict[str, str]  # By that, "prepare" and "callbacks": `module:function`
    is_made: bool  # Whether their module is made here


def _named(model: UserFunction | str | Any, prepare: UserFunction | None, callbacks: Any, folder: Path) -> _Named:
    functions = {"callbacks": callbacks} if callable(callbacks) else {}
    if isinstance(model, str):
        if prepare is not None:
            raise ConfigError("prepare: a model that is given by name uses prepare of its module: remove this argument")
        name = model.partition(":")[2]
        names = name_functions(functions, folder) if functions else {}
        return _Named(name, {**names, name: model}, is_made=bool(functions))
    build = given_model(model)
    name = getattr(build, "__name__", "")
    name = name if name.isidentifier() and name not in ("callbacks", "prepare") else "model"
    functions = {name: build, **({"prepare": prepare} if prepare is not None else {}), **functions}
    return _Named(name, name_functions(functions, folder), is_made=True)


def _validated(sections: dict[str, Any], spark: SparkSession, say: Callable[[str], None]) -> JobConfig:
    if isinstance(sections.get("output"), (str, Path)):
        sections["output"] = {"path": str(sections["output"])}
    if "path" not in sections.get("output", {}):
        path = temporary_output(spark)
        say(f"output.path is not set: the run is written to {path}, which is deleted at the end of the session")
        sections["output"] = {**sections.get("output", {}), "path": path}
    return JobConfig.model_validate(sections)


def functions_folder(spark: SparkSession) -> Path:
    """Returns the folder of the functions' modules; it is deleted with the session."""
    return Path(str(spark.sparkContext._temp_dir)) / "functions"


def temporary_output(spark: SparkSession, key: str = "output") -> str:
    """Returns a new folder for runs, deleted with the session.

    Args:
        key: Name of the path in messages.

    Raises:
        ConfigError: executors may be on other machines, which cannot reach it.
    """
    if not master_of(str(spark.sparkContext.master)).one_machine:
        raise ConfigError(f"{key} is not set: name a folder that executors on all machines can reach")
    return tempfile.mkdtemp(prefix="sparktf-runs-", dir=str(spark.sparkContext._temp_dir))


def fields_of(section: type[Section]) -> list[str]:
    """Returns the settings of a section."""
    return list(section.__annotations__)


def _sections(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Returns keywords by section, merged into the sections that were given."""
    found: dict[str, Any] = {}
    homes = {key: section for section, kind in _SECTIONS.items() for key in fields_of(kind)}
    for key, value in keywords.items():
        if key in JobConfig.model_fields and key != "model":
            found[key] = {**value, **found.get(key, {})} if isinstance(value, Mapping) else value
        elif key in homes:
            found[homes[key]] = {**found.get(homes[key], {}), key: value}
        else:
            if key in INSTEAD:
                raise ConfigError(f"there is no setting {key!r}, as Keras has it: {INSTEAD[key]}")
            known = [*JobConfig.model_fields, *homes]
            near = difflib.get_close_matches(key, known, n=1)
            raise ConfigError(f"there is no setting {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return {**found, **_begun(found.get("train"))}


def _begun(train: Any) -> dict[str, Any]:
    """Returns the section `train` with the path of the run that `init_from` is: its optimizer goes on too, as in Keras.

    Empty where it is no run.
    """
    run = train.get("init_from") if isinstance(train, Mapping) else None
    if isinstance(run, str) or not isinstance(run, (TrainedRun, LoadedModel)):
        return {}
    path = run.model if isinstance(run, TrainedRun) else run.path
    if not path:
        raise ConfigError("init_from: the run has no model: give the result of one that has, or the path of a model")
    return {"train": {"init_optimizer": isinstance(run, TrainedRun), **train, "init_from": str(path)}}
