"""Settings of a Spark session about reading files, so that trainers read the same as Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SparkReads:
    """The settings; by default as Spark 4 has them where nobody sets them."""

    zone: str = "UTC"  # Of timestamps in the names of folders; "" if unknown
    infers_partitions: bool = True  # Whether values in the names of folders may be other than text
    infers_times: bool = True  # Whether such a value may be a time of day; before Spark 4.1, it is text
    case_sensitive: bool = False  # Whether `a` and `A` are two columns
    # Whether dates and timestamps of files with unknown writers are converted
    rebases_unknown: bool = False
    rebases_unknown_int96: bool = False  # Likewise of INT96 timestamps
    # Whether INT96 timestamps not written by Java's library are moved into the session's zone
    shifts_int96: bool = False

    def same(self, name: str) -> str:
        """Returns the form that all spellings of a column's name have in common."""
        return name if self.case_sensitive else name.lower()
