"""``kwire pipeline verify``: each record of the broker once in the sink, or which ones aren't.

Rules:

- A transform may leave rows out on purpose. Nobody can tell these from rows that were lost, so a
  pipeline with transforms has gaps that may be neither; ``--allow-gaps`` counts them, and fails for
  doubles and strangers only.
- A stream that runs has a batch under way, whose rows or dead letters are there in part. So the
  checkpoint is read before the sink, and only what it has finished then can be missing.
- What the pipeline has finished must be there, also if the table is gone as a whole, unless
  ``expire`` has taken it.
- A table of upserts is compared by keys (``comparison_by_key``), a topic by the offsets that its
  transactions have committed (``comparison_by_transaction``).
- The exit code is 0 if the sink is exact, 1 if it isn't or can't be compared, 2 for a wrong file.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from kwire.cli.tables import show
from kwire.spark.broker_offsets import ask_broker, broker_offsets
from kwire.spark.checkpoint import Checkpoint, Offsets
from kwire.spark.commands.reading import fail_with, read_or_tell
from kwire.spark.commands.work_bar import WorkBar
from kwire.spark.comparison import (
    BrokerOffsets,
    Compared,
    Partition,
    claims_of,
    compare,
    with_finished,
)
from kwire.spark.comparison_by_key import compare_keys, held_keys, places_of
from kwire.spark.comparison_by_transaction import NOTE, compare_committed
from kwire.spark.dead_letter_offsets import dead_letter_offsets
from kwire.spark.expired_rows import ExpiredRows
from kwire.spark.incarnations import Incarnations
from kwire.spark.key_outcomes import bounds_of
from kwire.spark.reporting import Report, silent
from kwire.spark.settings import PipelineSettings
from kwire.spark.sink import CommitsOffsets, Held, KeepsNewest, Sink
from kwire.spark.sinks.table_rows import is_missing
from kwire.spark.spark_log import log_of
from kwire.spark.storage import Storage, storage_at
from kwire.spark.tombstone_ways import TombstoneWays
from kwire.spark.tombstones import way_of
from kwire.spark.upkeep.commands import (
    add_common,
    is_bug,
    one_line,
    session_of,
    sink_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kwire.client.cluster import Cluster

EXAMPLES = """examples:
  kwire pipeline verify orders.toml
  kwire pipeline verify orders.toml --json --allow-gaps"""

COLUMNS = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "first": "FIRST",
    "end": "END",
    "broker": "BROKER",
    "sink": "SINK",
    "dead_letters": "DEAD LETTERS",
    "unfinished": "UNFINISHED",
    "gaps": "GAPS",
    "doubles": "DOUBLES",
    "strangers": "STRANGERS",
    "compacted": "COMPACTED",
    "deleted": "DELETED",
    "earlier": "EARLIER",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.description = (
        "Compare what the broker holds, between the first and the last offset that the sink "
        "claims, with what the sink holds. Markers and aborted records are no gaps, nor is what "
        "compaction has removed, nor what the dead letters hold. Upserts are compared key by key; "
        "of a topic only what its transactions have committed is compared, not its rows."
    )
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_common(parser)
    parser.add_argument(
        "--allow-gaps",
        action="store_true",
        help="don't fail for gaps: the pipeline's transforms leave rows out",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit code."""
    settings = read_or_tell(options.file)
    if settings is None:
        return 2
    log = log_of(settings, "verify")
    try:
        sink = sink_of(settings)
        with WorkBar("verify", is_on=not options.json) as bar:
            spark = session_of(settings, log, bar)
            found = verify(spark, settings, sink, bar.show)
    except Exception as error:
        if is_bug(error):
            raise
        return fail_with(log, one_line(error))
    rows = [asdict(one) | {"is_exact": one.is_exact} for one in found]
    columns = COLUMNS | ({"spread": "SPREAD"} if isinstance(sink, KeepsNewest) else {})
    show(rows, columns, as_json=options.json, nothing="the sink holds nothing yet")
    if found and isinstance(sink, CommitsOffsets):
        print(NOTE, file=sys.stderr)
    failed = wrong(found, allows_gaps=options.allow_gaps)
    if failed and not options.json:
        for one in failed:
            print(partition_line(one))
        is_by_key = isinstance(sink, KeepsNewest)  # which runs the transforms again
        if settings.transforms and not is_by_key and any(one.gaps for one in failed):
            print("the pipeline has transforms: if they leave rows out, add --allow-gaps")
    return 1 if failed else 0


@dataclass(frozen=True, slots=True)
class _Known:
    """What the pipeline's own files say, read before the sink and the broker."""

    topics: Incarnations
    checkpoint: Checkpoint
    finished: Offsets
    begin_of: Callable[[Partition], int | None]
    ways: TombstoneWays


def verify(
    spark: "SparkSession", settings: PipelineSettings, sink: Sink, report: Report = silent
) -> list[Compared]:
    """Compare a sink with the broker, partition by partition.

    OffsetsUnknown if the sink can't say what it holds, RuntimeError if the broker can't.
    """
    # The sink isn't opened: that would remove what a running pipeline is writing.
    storage = storage_at(settings.checkpoint, spark)
    topics = Incarnations(storage)
    # The order counts: what is finished now is in the sink, the dead letters and the broker later.
    checkpoint = Checkpoint(storage_at(storage.url(topics.directory), spark))
    begin_of = beginning(topics, Checkpoint(storage_at(storage.url("spark-0"), spark)), storage)
    ways = TombstoneWays(storage, way_of(settings.sink))
    known = _Known(topics, checkpoint, checkpoint.next_offsets(), begin_of, ways)
    if isinstance(sink, KeepsNewest):
        return _by_key(spark, settings, sink, known)
    if isinstance(sink, CommitsOffsets):
        return _by_transaction(spark, settings, sink, known, report)
    finished = known.finished
    held = claims_of(held_by(sink, spark), topics.all())
    if not held:
        check_empty(finished, begin_of)
    claims = with_finished(held, finished, begin_of)
    dead = dead_letter_offsets(spark, settings, topics) if claims else {}
    ranges = {place: (claim.first, claim.end) for place, claim in claims.items()}
    there = _ask_broker(settings, known, ranges, report)
    return [
        compare(place, claim, there[place], dead.get(place), finished.get(place))
        for place, claim in sorted(claims.items())
    ]


def _ask_broker(
    settings: PipelineSettings,
    known: _Known,
    ranges: Mapping[Partition, tuple[int, int]],
    report: Report = silent,
) -> dict[Partition, BrokerOffsets]:
    """What the broker holds of ranges; RuntimeError, also if a topic was created again."""
    topics = known.topics
    check_topics(settings, topics, {topic for topic, _ in ranges})
    skipped = {place: known.ways.skipped(*place, topics.of(place[0])) for place in ranges}
    is_committed = settings.source.isolation_level == "read_committed"
    return ask_broker(
        settings.source,
        lambda cluster: broker_offsets(
            cluster,
            ranges,
            read_committed=is_committed,
            skipped=skipped,
            report=report,
        ),
    )


def _by_key(
    spark: "SparkSession", settings: PipelineSettings, sink: KeepsNewest, known: _Known
) -> list[Compared]:
    """Compare a table that has only the newest row of each key."""
    from pyspark.errors import AnalysisException

    try:
        held = held_keys(sink.table(spark), sink.keys)
    except AnalysisException as error:
        if not is_missing(error):
            raise
        held = None
    try:
        places = {*known.finished, *(places_of(held) if held is not None else ())}
        if not places:
            return []
        firsts = _begins(known)
        # Only where the logs begin and end: Spark reads the records, because it knows their keys.
        there = _ask_broker(settings, known, dict.fromkeys(places, (0, 0)))
        dead = dead_letter_offsets(spark, settings, known.topics)
        bounds = bounds_of(firsts, known.finished, there, known.topics.all())
        return compare_keys(spark, settings, sink, held, bounds, dead)
    finally:
        if held is not None:
            held.unpersist()


def _by_transaction(
    spark: "SparkSession",
    settings: PipelineSettings,
    sink: CommitsOffsets,
    known: _Known,
    report: Report,
) -> list[Compared]:
    """Compare the offsets that transactions have committed."""
    finished = known.finished
    if not finished:
        return []
    begins = known.checkpoint.end(-1) if known.topics.epoch else _begins(known)
    committed = sink.committed(settings.name, known.checkpoint.query_id(), sorted(finished))
    dead = dead_letter_offsets(spark, settings, known.topics)
    ranges = {place: (begins.get(place, 0), end) for place, end in finished.items()}
    there = _ask_broker(settings, known, ranges, report)
    return compare_committed(begins, finished, committed, there, dead)


def _begins(known: _Known) -> Offsets:
    """Where the pipeline began each partition; RuntimeError if nobody knows."""
    found = {place: known.begin_of(place) for place in known.finished}
    if None in found.values():
        raise RuntimeError(
            "nobody can say where the pipeline began: its first checkpoint (spark-0) is gone"
        )
    return {place: begin for place, begin in found.items() if begin is not None}


def check_empty(finished: Offsets, begin_of: Callable[[Partition], int | None]) -> None:
    """RuntimeError if nobody can say whether a sink without rows should have some."""
    if any(end > 0 and begin_of(place) is None for place, end in finished.items()):
        raise RuntimeError(
            "the sink holds nothing, and nobody can say whether it should: rows have expired by "
            "their age, or the pipeline's first checkpoint (spark-0) is gone"
        )


def check_topics(settings: PipelineSettings, topics: Incarnations, names: set[str]) -> None:
    """RuntimeError if a topic isn't the one that the pipeline has read."""

    async def ids(cluster: "Cluster") -> dict[str, str]:
        found = await cluster.topics(sorted(names))
        return {name: one.topic_id.hex() for name, one in found.items()}

    if names and (again := topics.recreated(ask_broker(settings.source, ids))):
        raise RuntimeError(
            f"{', '.join(again)} was created again since the pipeline has read it, so its records "
            "are others: run the pipeline first"
        )


def beginning(
    topics: Incarnations, first: Checkpoint, storage: Storage
) -> Callable[[Partition], int | None]:
    """Where the rows of partitions should begin; None if nobody knows."""
    expired = ExpiredRows(storage)
    began = first.end(-1)

    def begin_of(place: Partition) -> int | None:
        if expired.by_time or not began:
            return None
        number = topics.of(place[0])
        # A topic that was created again, and a partition that was added, is read as a whole.
        begin = 0 if number else began.get(place, 0)
        return max(begin, expired.before(*place, number))

    return begin_of


def held_by(sink: Sink, spark: "SparkSession") -> Iterator[Held]:
    """What a sink holds; nothing if its table isn't there yet."""
    from pyspark.errors import AnalysisException

    try:
        yield from sink.held(spark)
    except AnalysisException as error:
        if not is_missing(error):
            raise


def wrong(found: list[Compared], *, allows_gaps: bool = False) -> list[Compared]:
    """The partitions that aren't exact."""
    return [one for one in found if one.doubles or one.strangers or (one.gaps and not allows_gaps)]


def partition_line(compared: Compared) -> str:
    """A line about a partition that isn't exact, with a few of the offsets."""
    parts = []
    for name in ("gaps", "doubles", "strangers"):
        if number := getattr(compared, name):
            where = ", ".join(f"{first}-{end - 1}" for first, end in compared.examples[name])
            parts.append(f"{number} {name} (offsets {where})")
    return f"{compared.topic}-{compared.partition}: {', '.join(parts)}"
