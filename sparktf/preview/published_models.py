"""The published models of a name: where a run's would stand, and which one readers have."""

from __future__ import annotations

import datetime as dt
import json
from typing import NamedTuple

from sparktf.config.job import JobConfig
from sparktf.errors import StorageError
from sparktf.preview.forecast import ChampionForecast, PublishForecast
from sparktf.published.serving import Serving
from sparktf.storage.base import Storage


class _Model(NamedTuple):
    """The model that the run would publish; see `Dated`."""

    run_id: str
    date: str


def publish_forecast(config: JobConfig, serving: Serving, run_id: str, today: dt.date) -> PublishForecast | None:
    """Returns the place of a run's model among those that are published; None if it publishes none.

    Args:
        run_id: "" if it is not known.
        today: The date of a model whose configuration names none.

    Raises:
        StorageError: the storage failed.
    """
    if config.publish is None:
        return None
    date = config.publish.date or (config.date or today).isoformat()
    standing = serving.standing(_Model(run_id, date))
    if standing is None:
        return PublishForecast(date=date, outcome="new", version=serving.next_number())
    if standing.newer is not None:
        number, day = standing.newer.number, standing.newer_date
        return PublishForecast(date=date, outcome="newer stands", version=number, standing_date=day)
    return PublishForecast(date=date, outcome="published", version=standing.version or 0)


def champion_forecast(serving: Serving, storage: Storage) -> ChampionForecast | None:
    """Returns the model that readers have, with its metrics where they can be read; None if there is none.

    Raises:
        StorageError: the storage failed.
    """
    version = serving.current_version()
    if version is None:
        return None
    try:
        manifest = serving.manifest(version)
        metrics = json.loads(storage.read_bytes(f"{version.folder}/metrics.json"))
    except (StorageError, ValueError):
        return ChampionForecast(version=version.number)
    return ChampionForecast(version=version.number, run_id=manifest.run_id, date=manifest.date, metrics=metrics)
