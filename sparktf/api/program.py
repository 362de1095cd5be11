"""Configurations of programs and notebooks: from keywords, functions and a Spark session. Above the driver."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sparktf.config.data_section import DataConfig
from sparktf.config.job import JobConfig
from sparktf.config.nodes import ClusterConfig
from sparktf.config.section import Section
from sparktf.config.train import TrainConfig
from sparktf.driver.code.function_module import UserFunction, name_functions
from sparktf.driver.spark.masters import master_of
from sparktf.errors import ConfigError

_SECTIONS: dict[str, type[Section]] = {"data": DataConfig, "train": TrainConfig, "cluster": ClusterConfig}
"""Whose settings may be keywords by themselves; no two of them have a setting of one name."""


def program_config(
    spark: SparkSession,
    model: UserFunction | str,
    keywords: Mapping[str, Any],
    say: Callable[[str], None],
    *,
    prepare: UserFunction | None = None,
) -> JobConfig:
    """Returns the configuration given by keywords.

    Args:
        model: The function that returns the compiled model, or its name as `module:function`.
        keywords: Sections of the configuration, as mappings, and settings of `data`, `train` and `cluster` by
            themselves: `epochs=3`.
        say: Called with a line about defaults.
        prepare: The function of that name, where `model` is a function.

    Raises:
        ConfigError: a keyword is unknown, or the configuration does not fit together.
    """
    sections = _sections(keywords)
    name = "" if isinstance(model, str) else getattr(model, "__name__", "")
    name = name if name.isidentifier() else "model"
    callbacks = sections.get("train", {}).get("callbacks")
    folder = functions_folder(spark)
    if isinstance(model, str):
        if prepare is not None:
            raise ConfigError("prepare: a model that is given by name uses prepare of its module: remove this argument")
        if callable(callbacks):
            raise ConfigError(
                "callbacks: a model that is given by name needs callbacks that are given by name, as module:function"
            )
        config = _validated({"model": model, "name": model.partition(":")[2], **sections}, spark, say)
        return config
    functions = {name: model}
    functions |= {"prepare": prepare} if prepare is not None else {}
    functions |= {"callbacks": callbacks} if callable(callbacks) else {}
    named = name_functions(functions, folder)
    if callable(callbacks):
        sections["train"] = {**sections["train"], "callbacks": named["callbacks"]}
    return _validated({"model": named[name], "name": name, **sections}, spark, say).in_folder(folder)


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
        if key in JobConfig.model_fields and key not in ("model", "data"):
            found[key] = {**found.get(key, {}), **value} if isinstance(value, Mapping) else value
        elif key in homes:
            found[homes[key]] = {**found.get(homes[key], {}), key: value}
        else:
            known = [*JobConfig.model_fields, *homes]
            near = difflib.get_close_matches(key, known, n=1)
            raise ConfigError(f"there is no setting {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return found
