"""The upkeep of Delta tables without Java, by the package ``deltalake``.

Each command is one commit. A command that conflicts with another change of the same files is tried
again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kwire.spark.batch import OffsetRange
from kwire.spark.column_names import DELTA, INCARNATION
from kwire.spark.reporting import Report, silent
from kwire.spark.settings import SinkSettings
from kwire.spark.sinks.arrow_rows import MAX_ROWS, collect, held_in_arrow
from kwire.spark.sinks.table_conflicts import retried
from kwire.spark.sinks.table_rows import PLACE, table_columns
from kwire.spark.upkeep import Cutoff, Done
from kwire.spark.upkeep.conditions import Columns, of_cutoff, of_ranges, of_records, within
from kwire.spark.upkeep.old_times import has_old_times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class OldTimes(RuntimeError):
    """A table has files that Spark has to write again; the text says how."""


class Upkeep:
    """The upkeep of the table at ``path``."""

    needs_spark = False

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings

    def _table(self) -> Any:
        from deltalake import DeltaTable

        storage = self._settings.options.get("storage")
        return DeltaTable(self._settings.path, storage_options=storage)

    def _count(self) -> int:
        return len(self._table().file_uris())

    def _check_times(self) -> None:
        """OldTimes if a file has times that deltalake would write as others."""
        for one in self._table().file_uris():
            path = one.removeprefix("file://")
            if "://" not in path and has_old_times(path):
                raise OldTimes(
                    f"{one} has timestamps of type INT96, which only Spark reads as they are: run "
                    'compact once with kind = "delta", which writes them anew'
                )

    def compact(
        self, spark: "SparkSession | None", target_bytes: int, report: Report = silent
    ) -> Done:
        """Merge small files. Older versions keep their files until ``expire`` removes them."""
        self._check_times()
        before = self._count()
        retried(lambda: self._table().optimize.compact(target_size=target_bytes))
        return Done(files_before=before, files_after=self._count())

    def expire(self, spark: "SparkSession | None", cutoff: Cutoff, keep_s: int) -> Done:
        """Delete old rows, and the files that no version of the last ``keep_s`` seconds uses."""
        self._check_times()
        before = self._count()
        condition = of_cutoff(cutoff, self._settings, self._columns())
        metrics = retried(lambda: self._table().delete(condition))
        # Otherwise deltalake refuses less than the retention of the table, 7 days by default.
        self._table().vacuum(keep_s // 3600, dry_run=False, enforce_retention_duration=False)
        return Done(before, self._count(), int(metrics.get("num_deleted_rows") or 0))

    def ranges(self, spark: "SparkSession", wanted: OffsetRange) -> list[OffsetRange]:
        """The range, as far as the table goes."""
        names = [one for one in self._names() if one in (*PLACE, INCARNATION)]
        found = self._table().to_pyarrow_table(columns=names)
        return within(wanted, [one.range for one in held_in_arrow(found)])

    def _names(self) -> list[str]:
        return [field.name for field in self._table().schema().fields]

    def _columns(self) -> Columns:
        return Columns.of(self._names())

    def replay(
        self, spark: "SparkSession", rows: "DataFrame", ranges: Sequence[OffsetRange]
    ) -> Done:
        """Replace the rows of the ranges in one commit."""
        self._check_times()
        from deltalake import write_deltalake

        limit = self._settings.options.get("max_rows", MAX_ROWS)
        wanted = table_columns(of_records(rows, ranges), self._settings, ranges, DELTA)
        found = collect(wanted, limit)
        if not set(self._names()).issuperset(found.column_names):
            # deltalake can't add columns and keep the other rows of a file in one commit.
            write_deltalake(self._table(), found.slice(0, 0), mode="append", schema_mode="merge")
        retried(
            lambda: write_deltalake(
                self._table(),
                found,
                mode="overwrite",
                predicate=of_ranges(ranges, self._columns()),
                schema_mode="merge",
            )
        )
        return Done(rows=found.num_rows)
