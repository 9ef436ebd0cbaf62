"""``kwire pipeline replay --dead-letters``: send dead letters to their topic again.

Without ``--execute`` only the plan is printed, as with ``kwire groups reset``.

Rules:

- A dead letter is sent once: what is sent and its mark are one transaction (``moving``). After an
  interruption, the next run continues with the other dead letters.
- A dead letter is sent with its own key, value and headers, to its source topic or to ``--to``.
- Several pipelines may share a topic or table of dead letters. Only the pipeline's own are sent,
  and those without a pipeline's name.
- A dead letter that was written twice (see ``dead_letters``) is sent once, because its place
  identifies it.
- If its value was too large and stayed in the source topic, the value is read from there. That
  isn't possible if the topic was created again, because then another record has its offset.
- A record that can't be read is never sent: its dead letter has nothing of it but its place.
- Its mark has the topic's id, so that it isn't mistaken for a dead letter of an earlier topic of
  the same name.
- A topic of dead letters is read with kwire's client, a table of them with pyarrow or deltalake:
  no Spark is started.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.schemas.undecodable import RECORD
from kwire.spark.commands.reading import read_or_tell
from kwire.spark.commands.work_bar import WorkBar
from kwire.spark.dead_letters import (
    ERROR,
    FAILED_MS,
    PIPELINE,
    PREFIX,
    SOURCE,
    TIMESTAMP_MS,
    TOPIC_ID,
    VALUE_BYTES,
    name_of,
)
from kwire.spark.reporting import Report, silent
from kwire.spark.settings import DeadLetters, PipelineSettings

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.leaders import TopicPartition
    from kwire.client.moving import Move
    from kwire.record.records import Headers, Record


class DeadLetter(NamedTuple):
    """A record that couldn't be decoded, and where its topic holds it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: "Headers"
    error: str
    failed_ms: int
    left_bytes: int = 0
    """More than 0: the value is in the source topic."""
    topic_id: str = ""
    """The cluster's id of the topic; empty if an earlier version has written the dead letter."""

    pipeline: str = ""
    """The name of the pipeline that has written it."""

    @property
    def place(self) -> str:
        """TOPIC/PARTITION/OFFSET."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def name(self) -> str:
        """A name that is unique, even among topics that had the same name."""
        return name_of(self.place, self.topic_id)


class Selection(NamedTuple):
    """The dead letters to replay; a criterion that isn't given fits all."""

    topics: tuple[str, ...] = ()
    error: str = ""
    since_ms: int = 0
    until_ms: int = 1 << 62

    def takes(self, letter: DeadLetter) -> bool:
        """Whether a dead letter is selected."""
        return (
            (not self.topics or letter.topic in self.topics)
            and self.error.lower() in letter.error.lower()
            and self.since_ms <= letter.failed_ms < self.until_ms
        )


class Replayed(NamedTuple):
    """The result of a replay, or of its plan."""

    selected: int
    sent: int
    sent_before: int
    lost: int
    """How many can't be sent: they can't be read, or their topic has deleted their values."""
    by_error: dict[str, int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that ``--dead-letters`` has; the file is the command's."""
    group = parser.add_argument_group("dead letters")
    group.add_argument(
        "--dead-letters", action="store_true", help="send dead letters to their topic again"
    )
    group.add_argument("--to", metavar="TOPIC", help="send them here, not where they came from")
    group.add_argument(
        "--source-topic",
        metavar="TOPIC",
        action="append",
        default=[],
        help="only those of a topic; may be repeated",
    )
    group.add_argument("--error", metavar="TEXT", default="", help="only those with this error")
    group.add_argument("--since", metavar="TIME", help="only those that failed at or after a time")
    group.add_argument("--until", metavar="TIME", help="only those that failed before a time")
    group.add_argument("--execute", action="store_true", help="send them; else print the plan")


def run(options: argparse.Namespace) -> int:
    """Replay the dead letters of the pipeline file ``options.file``; returns the exit code."""
    from kwire.cli.options import time_ms
    from kwire.cli.output import fail, wrong
    from kwire.client.errors import ClientError
    from kwire.errors import KafkaError

    now_ms = int(time.time() * 1000)
    settings = read_or_tell(options.file)
    if settings is None:
        return 2
    try:
        selection = Selection(
            tuple(options.source_topic),
            options.error,
            time_ms(options.since, now_ms) if options.since else 0,
            time_ms(options.until, now_ms) if options.until else 1 << 62,
        )
        with WorkBar("replay", is_on=True) as bar:
            found = replay(
                settings, selection, to=options.to, execute=options.execute, report=bar.show
            )
    except (ValueError, OSError) as error:
        return wrong(str(error))
    except (KafkaError, ClientError) as error:
        return fail(f"the cluster at {settings.source.bootstrap_servers}: {error}")
    for text, count in sorted(found.by_error.items(), key=lambda one: -one[1]):
        print(f"{count:>9,}  {text}")
    verb = "sent" if options.execute else "would be sent: --execute sends them"
    print(f"{found.sent:,} {verb}; {found.sent_before:,} were sent before")
    if found.lost:
        why = "can't be read, or were too large to keep and their topic deleted them"
        return fail(f"{found.lost} can't be sent: they {why}")
    return 0


def replay(
    settings: PipelineSettings,
    selection: Selection,
    *,
    to: str | None,
    execute: bool,
    report: Report = silent,
) -> Replayed:
    """Send dead letters again; WrongSetting, OSError, KafkaError, ClientError."""
    import trio

    from kwire.client.leaders import first_error
    from kwire.spark.dead_letters import check
    from kwire.spark.source_client import open_source

    if settings.dead_letters is None:
        raise ValueError("dead_letters: the pipeline keeps none")
    check(settings.dead_letters)
    dead = settings.dead_letters

    async def work() -> Replayed:
        async with open_source(settings.source) as cluster:
            report("reading dead letters", 0, 0)
            sending = partial(report, "sending dead letters")
            return await _replay(cluster, settings.name, dead, selection, to, execute, sending)

    try:
        return trio.run(work)
    except BaseExceptionGroup as group:
        raise first_error(group) from group


async def _replay(
    cluster: "Cluster",
    pipeline: str,
    settings: DeadLetters,
    selection: Selection,
    to: str | None,
    execute: bool,
    sending: Callable[[int, int], object],
) -> Replayed:
    from kwire.client.moving import marked, open_mover

    marks = marks_topic(pipeline)
    mover = await open_mover(cluster, marks) if execute else None
    before = mover.sent.copy() if mover is not None else await marked(cluster, marks)
    letters: dict[str, DeadLetter] = {}

    def take(letter: DeadLetter) -> None:
        if letter.pipeline in ("", pipeline) and selection.takes(letter):
            letters.setdefault(letter.name, letter)

    await _read(cluster, settings, take)
    new = [one for name, one in letters.items() if name not in before]
    by_error: dict[str, int] = {}
    for one in new:
        by_error[one.error] = by_error.get(one.error, 0) + 1
    sent, lost = len(new), 0
    if mover is not None:
        moves: list[Move] = []
        for one in new:
            whole = await _with_value(cluster, one)
            if whole is None:
                lost += 1
            else:
                moves.append(_move_of(whole, to))
        sent = await mover.send(moves, lambda done: sending(done, len(moves)))
    return Replayed(len(letters), sent, len(letters) - len(new), lost, by_error)


def marks_topic(pipeline: str) -> str:
    """The topic with the names of dead letters that were sent, or became rows by another replay."""
    return f"{pipeline}-replayed"


def _move_of(letter: DeadLetter, to: str | None) -> "Move":
    from kwire.client.moving import Move
    from kwire.client.transactional_producer import NewRecord

    headers = [header for header in letter.headers if not header[0].startswith(PREFIX)]
    headers.append((SOURCE, letter.place.encode()))
    record = NewRecord(letter.timestamp, letter.key, letter.value, tuple(headers))
    return Move(letter.name, to or letter.topic, record)


async def _with_value(cluster: "Cluster", letter: DeadLetter) -> DeadLetter | None:
    """A dead letter with its value; None if the record can't be read, or its topic deleted it."""
    from kwire.client.leaders import TopicPartition
    from kwire.client.moving import read_some

    if letter.error.startswith(RECORD):
        return None  # without key and value it would be a tombstone
    if not letter.left_bytes:
        return letter
    if not await _is_topic(cluster, letter):
        return None
    partition = TopicPartition(letter.topic, letter.partition)
    found = (await read_some(cluster, {partition: letter.offset})).get(partition)
    for record in found.records if found is not None else ():
        if record.offset == letter.offset and len(record.value or b"") == letter.left_bytes:
            return letter._replace(value=record.value, key=record.key, headers=record.headers)
    return None


async def _is_topic(cluster: "Cluster", letter: DeadLetter) -> bool:
    """Whether a dead letter's topic exists, and wasn't created again."""
    from kwire.errors import ErrorCode, KafkaError

    try:
        found = (await cluster.topics([letter.topic]))[letter.topic]
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        raise
    return letter.topic_id in ("", found.topic_id.hex())


async def _read(
    cluster: "Cluster", settings: DeadLetters, take: Callable[[DeadLetter], None]
) -> None:
    """Hand on all dead letters."""
    from kwire.client.moving import partitions_of, read_all

    if settings.path:
        for row in _table_rows(settings):
            take(_of_row(row))
        return

    def take_record(_: "TopicPartition", record: "Record") -> None:
        found = of_record(record)
        if found is not None:
            take(found)

    await read_all(cluster, await partitions_of(cluster, [settings.topic]), take_record)


def of_record(record: "Record") -> DeadLetter | None:
    """The dead letter in a record of a dead-letter topic; None if the record has none."""
    from kwire.spark.retries import header_of

    topic, _, rest = header_of(record.headers, SOURCE).rpartition("/")[0].rpartition("/")
    offset = header_of(record.headers, SOURCE).rpartition("/")[2]
    if not topic or not rest.isdigit() or not offset.isdigit():
        return None

    def number(name: str, default: int) -> int:
        text = header_of(record.headers, name)
        return int(text) if text.isdigit() else default

    return DeadLetter(
        topic,
        int(rest),
        int(offset),
        number(TIMESTAMP_MS, record.timestamp),
        record.key,
        record.value,
        record.headers,
        header_of(record.headers, ERROR),
        number(FAILED_MS, record.timestamp),
        number(VALUE_BYTES, 0),
        header_of(record.headers, TOPIC_ID),
        header_of(record.headers, PIPELINE),
    )


def _table_rows(settings: DeadLetters) -> "list[dict[str, Any]]":
    path = settings.path.removeprefix("file://")
    if settings.kind == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(path).to_pyarrow_table()
    else:
        import pyarrow.parquet

        if not Path(path).is_dir():
            raise OSError(f"{settings.path} is no directory of this machine's disks")
        files = sorted(str(one) for one in Path(path).glob("dead-*.parquet"))
        if not files:
            return []
        table = pyarrow.concat_tables(
            [pyarrow.parquet.read_table(one) for one in files], promote_options="default"
        )
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _of_row(row: dict[str, Any]) -> DeadLetter:
    headers = tuple((one["key"], one["value"]) for one in row["headers"] or ())
    return DeadLetter(
        row["topic"],
        row["partition"],
        row["offset"],
        # One whose timestamp is odd gets a new one.
        int((row["timestamp"] or row["time"]).timestamp() * 1000),
        row["key"],
        row["value"],
        headers,
        row["error"],
        int(row["time"].timestamp() * 1000),
        topic_id=row.get("topic_id") or "",
        pipeline=row.get("pipeline") or "",
    )
