"""``kwire pipeline expire``: rows older than a time, or before an offset, leave the table."""

import argparse
import time
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from kwire.cli.options import count, seconds
from kwire.spark.checkpoint import Checkpoint
from kwire.spark.commands.work_bar import WorkBar
from kwire.spark.expired_rows import ExpiredRows
from kwire.spark.incarnations import Incarnations
from kwire.spark.settings import PipelineSettings
from kwire.spark.spark_log import SparkLog
from kwire.spark.storage import Storage, storage_at
from kwire.spark.upkeep import Cutoff, Done, upkeep_of
from kwire.spark.upkeep.commands import add_common, report, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = """examples:
  kwire pipeline expire orders.toml --older-than 30d
  kwire pipeline expire orders.toml --topic orders --partition 3 --before-offset 120000"""
HOUR_S = 3600.0
WEEK_S = 7 * 86400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Remove old rows from a pipeline's table. Files go as a whole, by the time they were "
        "written; Delta and Iceberg lose the rows before it, by their records' timestamps. The "
        "pipeline may be running."
    )
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_common(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--older-than", metavar="TIME", type=seconds, help="as 12h or 30d")
    what.add_argument(
        "--before-offset",
        metavar="N",
        type=count,
        help="the first offset of the partition that stays",
    )
    parser.add_argument("--topic", help="with --before-offset: the topic")
    parser.add_argument("--partition", type=count, help="with --before-offset: the partition")
    parser.add_argument(
        "--keep-versions",
        metavar="TIME",
        type=seconds,
        default=WEEK_S,
        help="keep the files that older versions of a Delta or Iceberg table need for this long, "
        "because readers may still use them (default: 7d)",
    )


def cutoff_of(options: argparse.Namespace, now_ms: int) -> Cutoff:
    """The cutoff that the options name; ValueError if the offset's partition isn't named."""
    if options.older_than is not None:
        return Cutoff(before_ms=now_ms - int(options.older_than * 1000))
    if options.topic is None or options.partition is None:
        raise ValueError("--before-offset needs --topic and --partition")
    return Cutoff(None, options.topic, options.partition, options.before_offset)


def bounded(cutoff: Cutoff, storage: Storage, spark: "SparkSession | None") -> Cutoff:
    """A cutoff by offset for the present topic, not beyond the pipeline's finished offsets.

    Records that are read later must not expire. And ``verify`` begins after the expired rows: with
    a larger offset it would never find missing rows before it.
    """
    topics = Incarnations(storage)
    finished = Checkpoint(storage_at(storage.url(topics.directory), spark)).next_offsets()
    end = finished.get((cutoff.topic, cutoff.partition), 0)
    return replace(
        cutoff,
        before_offset=min(cutoff.before_offset, end),
        incarnation=topics.of(cutoff.topic),
    )


def check_keep(kind: str, keep_s: float) -> None:
    """ValueError before anything is deleted, if VACUUM could meet the files of a running batch."""
    if kind in ("delta", "delta-rs") and keep_s < HOUR_S:
        raise ValueError(
            f"--keep-versions is {keep_s:g}s: Delta's VACUUM would also delete what a running "
            "batch has written and not committed; give 1h or more"
        )


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit code."""

    def work(settings: PipelineSettings, log: SparkLog, bar: WorkBar) -> Done:
        cutoff = cutoff_of(options, int(time.time() * 1000))
        check_keep(settings.sink.kind, options.keep_versions)
        upkeep = upkeep_of(settings.sink)
        is_remote = urlparse(settings.checkpoint).scheme not in ("", "file")
        spark = session_of(settings, log, bar) if upkeep.needs_spark or is_remote else None
        storage = storage_at(settings.checkpoint, spark)
        if cutoff.before_ms is None:
            cutoff = bounded(cutoff, storage, spark)
        ExpiredRows(storage).record(cutoff)
        return upkeep.expire(spark, cutoff, int(options.keep_versions))

    return report(options, "expire", work)
