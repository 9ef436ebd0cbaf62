"""``kwire pipeline replay``: a range of records is read again and takes the place of its rows.

Rules:

- The rows of the range are replaced in one step (``upkeep``): readers see the old or the new ones.
- Only records that the table already has are written again. The stream writes the later ones, and
  they would be there twice.
- A record that the broker no longer has would be lost from the table. So a range that begins before
  the log start offset is refused, and so is a compacted topic, unless ``--partial`` is given.
- A record that can't be decoded stays a dead letter. If it isn't a dead letter yet, its row would
  be lost: that is refused, too, without ``--partial``. It is always refused if only the registry
  didn't answer.
- A dead letter of the range that becomes a row is marked as sent. Otherwise ``replay
  --dead-letters`` would add it a second time. After a kill before the marks, that is possible until
  the range is replayed again.
"""

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from kwire.cli.options import count
from kwire.cli.output import wrong
from kwire.client.cluster import Cluster
from kwire.client.leaders import TopicPartition
from kwire.client.moving import open_mover
from kwire.client.offsets import all_or_raise, ends_of, list_offsets, starts_of
from kwire.schemas.undecodable import REGISTRY
from kwire.spark import replay_dead_letters
from kwire.spark import rows as names
from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.batch_work import BatchWork, decoder_of, topics_of
from kwire.spark.broker_offsets import ask_broker, broker_offsets
from kwire.spark.broker_view import BrokerView
from kwire.spark.commands.work_bar import WorkBar
from kwire.spark.comparison import Partition, claims_of
from kwire.spark.dead_letter_offsets import dead_letter_offsets
from kwire.spark.dead_letters import name_of
from kwire.spark.incarnations import Incarnations
from kwire.spark.odd_records import either_way
from kwire.spark.offset_runs import OffsetRuns
from kwire.spark.settings import PipelineSettings
from kwire.spark.sink import Held
from kwire.spark.sinks.table_rows import PLACE, held_in
from kwire.spark.spark_log import SparkLog
from kwire.spark.storage import storage_at
from kwire.spark.tombstone_ways import TombstoneWays
from kwire.spark.tombstones import treated, way_of
from kwire.spark.upkeep import Done, Upkeep, upkeep_of
from kwire.spark.upkeep.commands import add_common, report, session_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Places = Mapping[Partition, OffsetRuns]
"""Offsets by topic and partition."""

EXAMPLES = """examples:
  kwire pipeline replay orders.toml --topic orders --partition 3 --from-offset 1000 --to-offset 2000
  kwire pipeline replay orders.toml --topic orders --from-time 2026-03-01T00:00:00+00:00
  kwire pipeline replay orders.toml --dead-letters
  kwire pipeline replay orders.toml --dead-letters --error "value:" --execute"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Read a range of records again, and put their rows in place of those that the table has. "
        "The pipeline may be running."
    )
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_common(parser)
    parser.add_argument("--topic", help="the topic; needed but for --dead-letters")
    parser.add_argument("--partition", type=count, help="one partition (default: all)")
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--from-offset", metavar="N", type=count, help="the first offset")
    begin.add_argument("--from-time", metavar="TIME", type=time_ms, help="ISO 8601")
    finish = parser.add_mutually_exclusive_group()
    finish.add_argument("--to-offset", metavar="N", type=count, help="the offset after the last")
    finish.add_argument("--to-time", metavar="TIME", type=time_ms, help="ISO 8601")
    parser.add_argument(
        "--partial",
        action="store_true",
        help="replace the range also if the broker no longer has all of its records, or if some "
        "can't be decoded any more: the table loses those",
    )
    replay_dead_letters.add_arguments(parser)


def time_ms(text: str) -> int:
    """ms since the epoch of a time in ISO 8601; without a zone it is local."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        wrong = f"{text} is no time: write 2026-03-01T00:00:00+00:00"
        raise argparse.ArgumentTypeError(wrong) from error
    return int((at if at.tzinfo else at.astimezone()).timestamp() * 1000)


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit code."""
    if options.dead_letters:
        return replay_dead_letters.run(options)
    if options.topic is None:
        return wrong("which records? Give --topic, or --dead-letters")

    def work(settings: PipelineSettings, log: SparkLog, bar: WorkBar) -> Done:
        upkeep = upkeep_of(settings.sink)
        wanted = ask_broker(settings.source, lambda cluster: wanted_ranges(cluster, options))
        spark = session_of(settings, log, bar)
        wanted = of_topics_read(spark, settings, wanted)
        return replay(spark, settings, upkeep, wanted, partial=options.partial)

    return report(options, "replay", work)


async def wanted_ranges(cluster: Cluster, options: argparse.Namespace) -> list[OffsetRange]:
    """The ranges of offsets that the options select, for each partition; KafkaError."""
    topic = (await cluster.topics([options.topic]))[options.topic]
    numbers = [one.partition_index for one in topic.partitions]
    chosen = [one for one in sorted(numbers) if options.partition in (None, one)]
    if not chosen:
        raise ValueError(f"{options.topic} has no partition {options.partition}")
    partitions = [TopicPartition(options.topic, one) for one in chosen]
    firsts = await starts_of(cluster, partitions)
    ends = await ends_of(cluster, partitions)
    latest = dict(ends)
    if options.from_offset is not None:
        firsts = dict.fromkeys(partitions, options.from_offset)
    if options.from_time is not None:
        firsts = await _at(cluster, latest, options.from_time)
    if options.to_offset is not None:
        ends = dict.fromkeys(partitions, options.to_offset)
    if options.to_time is not None:
        ends = await _at(cluster, latest, options.to_time)
    return [
        OffsetRange(one.topic, one.partition, firsts[one], ends[one])
        for one in partitions
        if firsts[one] < ends[one]
    ]


async def _at(
    cluster: Cluster, ends: dict[TopicPartition, int], at_ms: int
) -> dict[TopicPartition, int]:
    """The first offset at or after a time, the end if there is none."""
    found = all_or_raise(await list_offsets(cluster, dict.fromkeys(ends, at_ms)))
    return {one: offset if offset >= 0 else ends[one] for one, offset in found.items()}


def of_topics_read(
    spark: "SparkSession", settings: PipelineSettings, wanted: list[OffsetRange]
) -> list[OffsetRange]:
    """The ranges, with how often their topic was created again; ValueError if it is another now.

    The broker has only the records of the newest topic with a name. Rows of an earlier topic stay
    unchanged.
    """
    topics = Incarnations(storage_at(settings.checkpoint, spark))
    with BrokerView(settings.source) as view:
        found = view.topics({one.topic for one in wanted})
    if again := topics.recreated({name: topic_id for name, (topic_id, _) in found.items()}):
        raise ValueError(
            f"{', '.join(again)} was created again since the pipeline has read it: run the "
            "pipeline first"
        )
    return [replace(one, incarnation=topics.of(one.topic)) for one in wanted]


def replay(
    spark: "SparkSession",
    settings: PipelineSettings,
    upkeep: Upkeep,
    wanted: list[OffsetRange],
    *,
    partial: bool = False,
) -> Done:
    """Write ranges again, as far as the table has them; ValueError if rows would be lost."""
    ranges = [one for each in wanted for one in upkeep.ranges(spark, each)]
    if not ranges:
        return Done()
    if not partial:
        check_complete(settings, ranges)
    failed = undecodable(spark, settings, ranges)
    storage = storage_at(settings.checkpoint, spark)
    topics = Incarnations(storage)
    dead = dead_letter_offsets(spark, settings, topics)
    if not partial:
        check_dead(failed, dead)
    replaces = _Replaces(upkeep)
    work = BatchWork(settings, replaces, None)
    batch = Batch(settings.name, "replay", 0, tuple(ranges))
    either_way(spark, settings.source, ranges, lambda records: work.run(records, batch))
    TombstoneWays(storage, way_of(settings.sink)).replaced(ranges)
    if gone := replaced_names(ranges, failed, dead, topics):
        marks = replay_dead_letters.marks_topic(settings.name)
        ask_broker(settings.source, lambda cluster: mark(cluster, marks, gone))
    return replaces.done


async def mark(cluster: Cluster, marks: str, letters: set[str]) -> None:
    """Mark dead letters as sent; KafkaError."""
    await (await open_mover(cluster, marks)).mark(letters, int(time.time() * 1000))


def replaced_names(
    ranges: Iterable[OffsetRange], failed: Places, dead: Places, topics: Incarnations
) -> set[str]:
    """The dead letters of ranges that are rows now, and must not be sent again."""
    found = set()
    for one in ranges:
        place = one.topic, one.partition
        letters = dead.get(place, OffsetRuns()).within(one.first, one.end)
        topic_id = topics.ids().get(one.topic, "")
        for first, end in letters.minus(failed.get(place, OffsetRuns())):
            for offset in range(first, end):
                where = f"{one.topic}/{one.partition}/{offset}"
                found.add(name_of(where, topic_id))
                if not one.incarnation:
                    found.add(where)  # the name by earlier versions
    return found


def undecodable(
    spark: "SparkSession", settings: PipelineSettings, ranges: list[OffsetRange]
) -> dict[Partition, OffsetRuns]:
    """The records that can't be decoded now; ValueError if only the registry was away."""
    from pyspark.sql import functions as f

    topics = topics_of(settings.source, (one.topic for one in ranges))

    def places(records: "DataFrame") -> dict[Partition, OffsetRuns]:
        decoded = decoder_of(settings, records, topics)(records, True)
        decoded = treated(decoded, way_of(settings.sink))
        return undecoded(decoded.where(f.col(names.ERROR).isNotNull()))

    return either_way(spark, settings.source, ranges, places)


def undecoded(decoded: "DataFrame") -> dict[Partition, OffsetRuns]:
    """The places of records with an error; ValueError if only the registry was away."""
    from pyspark.sql import functions as f

    failed = decoded.select(*PLACE, names.ERROR).persist()
    try:
        if away := failed.where(f.col(names.ERROR).startswith(REGISTRY)).take(1):
            raise ValueError(f"{away[0][names.ERROR]}: run the command again when it answers")
        return {place: one.covered for place, one in claims_of(held_in(failed)).items()}
    finally:
        failed.unpersist()


def check_dead(failed: Places, dead: Places) -> None:
    """ValueError if records that can't be decoded are no dead letters."""
    for (topic, partition), offsets in sorted(failed.items()):
        lost = offsets.minus(dead.get((topic, partition), OffsetRuns()))
        if lost:
            raise ValueError(
                f"{topic}-{partition}: {lost.count} records that aren't dead letters can't be "
                f"decoded now, the first at offset {lost.first}; the table would lose their rows: "
                "mend [decode], or add --partial"
            )


def check_complete(settings: PipelineSettings, ranges: list[OffsetRange]) -> None:
    """ValueError if the broker no longer has all records of the ranges."""
    asked = {(one.topic, one.partition): (0, 0) for one in ranges}
    there = ask_broker(settings.source, lambda cluster: broker_offsets(cluster, asked))
    for one in ranges:
        found = there[one.topic, one.partition]
        if found.is_compacted:
            raise ValueError(
                f"{one.topic} is compacted: records that compaction has removed would be lost from "
                "the table; --partial replaces the range all the same"
            )
        if one.first < found.start:
            raise ValueError(
                f"{one.topic}-{one.partition} begins at offset {found.start} on the broker, and "
                f"the table has rows from {one.first} on, which would be lost; begin with "
                f"--from-offset {found.start}, or add --partial"
            )


class _Replaces:
    """A sink that puts a batch's rows in place of those that the table has."""

    def __init__(self, upkeep: Upkeep) -> None:
        self._upkeep = upkeep
        self.done = Done()

    def check(self) -> None:
        """Do nothing: the settings are already checked."""

    def open(self, spark: "SparkSession") -> None:
        """Do nothing: the table exists."""

    def write(self, rows: "DataFrame", batch: Batch) -> None:
        """Replace the rows of the batch's ranges."""
        self.done = self._upkeep.replay(rows.sparkSession, rows, batch.ranges)

    def held(self, spark: "SparkSession") -> Iterator[Held]:
        """Return no ranges: this sink has no rows of its own."""
        return iter(())
