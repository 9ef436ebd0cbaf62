"""The upkeep of pipelines' tables: merging small files, removing old rows, writing ranges again.

One module for each kind of sink, with a class ``Upkeep(settings)``; the commands ``compact``,
``expire`` and ``replay`` find it here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from kwire.spark.batch import OffsetRange
from kwire.spark.reporting import Report, silent
from kwire.spark.settings import SinkSettings, WrongSetting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS = {
    "parquet": "kwire.spark.upkeep.files",
    "json": "kwire.spark.upkeep.files",
    "delta": "kwire.spark.upkeep.delta",
    "iceberg": "kwire.spark.upkeep.iceberg",
    "delta-rs": "kwire.spark.upkeep.delta_rs",
}


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command, for its line or its JSON."""

    files_before: int = 0
    files_after: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Cutoff:
    """What ``expire`` removes: rows before a time, or before an offset of one partition."""

    before_ms: int | None = None
    topic: str = ""
    partition: int = -1
    before_offset: int = -1
    incarnation: int = 0
    """How often the topic was created again; rows of earlier topics expire by time only."""


class Upkeep(Protocol):
    """The upkeep of one table; every method is safe beside a running stream."""

    needs_spark: bool
    """Whether ``compact`` and ``expire`` need a session; ``replay`` always has one."""

    def compact(
        self, spark: "SparkSession | None", target_bytes: int, report: Report = silent
    ) -> Done:
        """Bring small files to about this size; Spark's work isn't reported."""

    def expire(self, spark: "SparkSession | None", cutoff: Cutoff, keep_s: int) -> Done:
        """Remove rows, and files that no version of the last ``keep_s`` seconds needs."""

    def replay(
        self, spark: "SparkSession", rows: "DataFrame", ranges: Sequence[OffsetRange]
    ) -> Done:
        """Replace all rows of these ranges in the table."""

    def ranges(self, spark: "SparkSession", wanted: OffsetRange) -> list[OffsetRange]:
        """The parts of a range that ``replay`` may write: only those that the table already has."""


def upkeep_of(settings: SinkSettings) -> Upkeep:
    """The upkeep of a sink; WrongSetting for a kind that has none."""
    if settings.kind not in KINDS:
        allowed = f"compact, expire and replay work with {', '.join(KINDS)}"
        raise WrongSetting("sink.kind", settings.kind, allowed)
    module = import_module(KINDS[settings.kind])
    return cast(Upkeep, module.Upkeep(settings))
