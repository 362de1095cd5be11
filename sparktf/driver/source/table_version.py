"""The version of a Delta or an Iceberg table: as a run wants it, and as Spark's plan has it, through py4j."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from sparktf.driver.spark.jvm import Java, class_of, iceberg_reads_in_order, set_property_once
from sparktf.driver.spark.jvm_plans import analyzed_plan

_ALIAS = "org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias"
_FILES = "org.apache.spark.sql.execution.datasources.LogicalRelation"
_TABLE = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"
_DELTA = "org.apache.spark.sql.delta."
_ICEBERG = "org.apache.iceberg.spark.source.SparkTable"

DELTA_TABLE, ICEBERG_TABLE = "a Delta table", "an Iceberg table"

VERSION_OPTION = "versionAsOf"
"""Of Spark's readers: Delta and Iceberg take it for tables and for paths."""

_ANOTHER_RUN = "use another --run-id"
_IN_ANY_ORDER = "iceberg.scan.plan-in-worker-pool"

UNORDERED = (
    "this session has read Iceberg tables before, and lists their files in any order, so a run that is resumed "
    f"inside an epoch may repeat rows and miss others: set spark.driver.extraJavaOptions=-D{_IN_ANY_ORDER}=false"
)
"""The message if Iceberg has not heeded `list_in_order`."""


class TableVersion(NamedTuple):
    """A version of a table."""

    kind: str  # `DELTA_TABLE` or `ICEBERG_TABLE`
    number: int  # Delta's version, or the id of Iceberg's snapshot


@dataclass(frozen=True)
class Moment:
    """The wanted version of a source; the newest if nothing is given."""

    section: str  # Section of the configured keys
    planned: int | None = None  # Of the run's stored plan, which takes precedence
    version: int | None = None  # As configured
    timestamp: str | None = None  # As configured, in ISO 8601

    @property
    def key(self) -> str:
        """The key that chooses it."""
        return f"{self.section}.{'timestamp' if self.version is None else 'version'}"

    @property
    def number(self) -> int | None:
        """The version; None if it has to be looked up."""
        return self.version if self.planned is None else self.planned

    @property
    def options(self) -> dict[str, str]:
        """The options of Spark's reader for it."""
        if self.number is not None:
            return {VERSION_OPTION: str(self.number)}
        # Python reads more forms of ISO 8601 than Spark: both are to mean the same by it.
        return {} if self.timestamp is None else {"timestampAsOf": _spelt(self.timestamp)}

    def is_to_come(self, spark: SparkSession) -> bool:
        """Whether the timestamp is in the future, by the clock and the time zone of the session."""
        if self.number is not None or self.timestamp is None:
            return False
        found = spark.sql(f"SELECT TIMESTAMP '{_spelt(self.timestamp)}' > current_timestamp()").first()
        return found is not None and bool(found[0])

    def without_versions(self, source: str) -> str:
        """Returns the message for a source without versions."""
        if self.planned is not None:
            return f"{source}: this run reads version {self.planned} of it, but it has no versions now: {_ANOTHER_RUN}"
        return f"{self.key}: {source} has no versions; only tables of Delta and Iceberg have them"

    def not_found(self, source: str, reason: str) -> str:
        """Returns the message for a source that has versions, but not this one."""
        if self.planned is not None:
            return (
                f"{source}: version {self.planned}, which this run reads, no longer exists ({reason}): {_ANOTHER_RUN}"
            )
        missing = f"version {self.version}" if self.version is not None else f"version as old as {self.timestamp}"
        return f"{self.key}: {source} has no {missing} ({reason})"


def _spelt(timestamp: str) -> str:
    return dt.datetime.fromisoformat(timestamp).isoformat()


def table_version_of(df: DataFrame) -> TableVersion | None:
    """Returns the version of the table that a DataFrame is; None if it is no table that keeps older versions.

    Sources of a view or a query have versions too, but none can be chosen. None, too, for a release of the connectors
    with unknown internals.
    """
    with suppress(Py4JError):
        return _version_in(analyzed_plan(df))
    return None


def _version_in(plan: Java) -> TableVersion | None:
    while class_of(plan) == _ALIAS:
        plan = plan.child()
    if class_of(plan) == _FILES and class_of(plan.relation()).startswith(_DELTA):
        return TableVersion(DELTA_TABLE, int(plan.relation().location().version()))
    if class_of(plan) == _TABLE and class_of(plan.table()) == _ICEBERG:
        snapshot = _snapshot(plan)
        return None if snapshot is None else TableVersion(ICEBERG_TABLE, snapshot)
    return None


def _snapshot(relation: Java) -> int | None:
    """Returns the snapshot that is read of an Iceberg table.

    None if it has no row yet, or if its name chooses a branch, a tag or a snapshot: Iceberg takes no second choice.
    """
    table, name = relation.table(), relation.identifier()
    if name.isDefined() and not str(table.name()).endswith(str(name.get().name())):
        return None
    number = table.snapshotId()
    if number is None:  # so in Iceberg's releases before 1.12, where none was asked for
        current = table.table().currentSnapshot()
        number = None if current is None else current.snapshotId()
    return None if number is None else int(number)


def list_in_order() -> None:
    """Makes Iceberg list the files of a snapshot always in the same order.

    By itself it reads manifests on several threads and takes them as they come. So Spark would make other partitions of
    the same snapshot each time, and a resume inside an epoch could not know which of their rows are trained. Iceberg
    looks at the setting once in the life of a JVM: at the first read from one of its tables.
    """
    set_property_once(_IN_ANY_ORDER, "false")


def is_listed_in_order() -> bool:
    """Whether Iceberg has heeded `list_in_order`; asked only where an Iceberg table is read."""
    return iceberg_reads_in_order()
