"""``kwire share dead-letters``: the dead letters of a share group (KIP-1191), and their replay.

Rules:

- The dead letters are in the topic that the group's config ``errors.deadletterqueue.topic.name``
  names, or in ``--topic``. Their headers say which record each is of, and why it is there. Only
  those of the group are shown. A record's dead letter may be written twice, and is shown once.
- A replay sends each record once more, and no second time: what is sent and its mark are one
  transaction (``kwire.client.moving``). Key, value and headers are those of the copy. Without a
  copy they are read from the topic of the record, if it still has the record.
- A record that is younger than its dead letter is another one: the topic was created again.
"""

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.client.cluster import Cluster
from kwire.client.configs import Resource, ResourceType, describe_configs
from kwire.client.leaders import TopicPartition
from kwire.client.moving import Move, marked, open_mover, partitions_of, read_all, read_some
from kwire.client.transactional_producer import NewRecord
from kwire.errors import ErrorCode, KafkaError
from kwire.record.records import Headers, Record

if TYPE_CHECKING:
    pass

TOPIC_NAME = "errors.deadletterqueue.topic.name"
PREFIX = "__dlq.errors."
ORIGIN = "kwire.source"
"""The header of a record that was sent again: TOPIC/PARTITION/OFFSET, as in a pipeline's replay."""

MARKS_SUFFIX = "-replayed"

_CAUSES = {
    "Offset rejected by client.": "rejected",
    "Offset delivery count exceeded the threshold.": "delivered too often",
}


class DeadLetter(NamedTuple):
    """A dead letter: its record's origin, why it is dead, and the copy if there is one."""

    origin: TopicPartition
    offset: int
    deliveries: int
    cause: str
    letter: Record

    @property
    def place(self) -> str:
        """TOPIC/PARTITION/OFFSET of its record."""
        return f"{self.origin.topic}/{self.origin.partition}/{self.offset}"

    @property
    def headers(self) -> Headers:
        """The headers of the record."""
        return tuple(one for one in self.letter.headers if not one[0].startswith(PREFIX))

    @property
    def has_copy(self) -> bool:
        """Whether it has anything of its record."""
        return not (self.letter.key is self.letter.value is None and not self.headers)


def dead_letter_of(record: Record, group: str) -> DeadLetter | None:
    """The dead letter in a record; None for one of another group, or something else."""
    told = {
        name.removeprefix(PREFIX): bytes(value or b"").decode(errors="replace")
        for name, value in record.headers
        if name.startswith(PREFIX)
    }
    numbers = [told.get(name, "") for name in ("partition", "offset")]
    if told.get("group") != group or not told.get("topic"):
        return None
    if not all(number.isascii() and number.isdigit() for number in numbers):
        return None
    deliveries, cause = told.get("delivery.count", ""), told.get("message", "")
    return DeadLetter(
        TopicPartition(told["topic"], int(numbers[0])),
        int(numbers[1]),
        int(deliveries) if deliveries.isascii() and deliveries.isdigit() else 0,
        _CAUSES.get(cause, cause),
        record,
    )


class DeadLetters(NamedTuple):
    """The dead letters of a group by their records' places, and the places that were replayed.

    ``replayed`` is None for a user who may not see the marks.
    """

    topic: str
    found: dict[str, DeadLetter]
    replayed: set[str] | None

    @property
    def marks(self) -> str:
        """The topic with the marks of what was replayed."""
        return self.topic + MARKS_SUFFIX


async def dead_letters(cluster: Cluster, group: str, topic: str | None) -> DeadLetters:
    """All dead letters of a group; CommandError without a topic, KafkaError."""
    name = topic or await _topic_of(cluster, group)
    found: dict[str, DeadLetter] = {}

    def take(_: TopicPartition, record: Record) -> None:
        letter = dead_letter_of(record, group)
        if letter is not None:
            found.setdefault(letter.place, letter)

    await read_all(cluster, await partitions_of(cluster, [name]), take)
    try:
        marks = await marked(cluster, name + MARKS_SUFFIX)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        return DeadLetters(name, found, None)
    return DeadLetters(name, found, {place for place in found if _mark(group, place) in marks})


async def _topic_of(cluster: Cluster, group: str) -> str:
    from kwire.cli.output import CommandError

    rows = await describe_configs(cluster, Resource(ResourceType.GROUP, group), [TOPIC_NAME])
    for row in rows:
        if row.name == TOPIC_NAME and row.value:
            return row.value
    raise CommandError(
        f"group {group} has no topic for dead letters: kwire configs set group {group} "
        f"{TOPIC_NAME}=TOPIC gives it one; --topic names the one it had"
    )


def _mark(group: str, place: str) -> str:
    return f"{group}/{place}"


def rows_of(letters: DeadLetters) -> list[dict[str, Any]]:
    """The dead letters, ready for a table or JSON; the oldest first."""
    return [
        {
            "time_ms": one.letter.timestamp,
            "topic": one.origin.topic,
            "partition": one.origin.partition,
            "offset": one.offset,
            "cause": one.cause,
            "deliveries": one.deliveries,
            "copy": one.has_copy,
            "replayed": None if letters.replayed is None else place in letters.replayed,
        }
        for place, one in sorted(
            letters.found.items(), key=lambda row: (row[1].letter.timestamp, row[1][:2])
        )
    ]


def show_letters(letters: DeadLetters, options: argparse.Namespace) -> None:
    """Print the dead letters."""
    from kwire.cli.record_lines import time_text
    from kwire.cli.tables import show

    rows = rows_of(letters)
    if not options.json:
        for row in rows:
            row["time"] = time_text(row["time_ms"])
            for name in ("copy", "replayed"):
                row[name] = {True: "yes", False: "no", None: None}[row[name]]
    titles = "time topic partition offset cause deliveries copy replayed"
    show(
        rows,
        {key: key.upper() for key in titles.split()},
        as_json=options.json,
        nothing=f"group {options.group} has no dead letters in {letters.topic}",
    )


async def replay(cluster: Cluster, letters: DeadLetters, options: argparse.Namespace) -> int:
    """Send the records of dead letters again that weren't yet; returns the exit code."""
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.planning import Step, begins, unchanged

    new = [one for place, one in letters.found.items() if place not in (letters.replayed or ())]
    by_target: dict[str, list[DeadLetter]] = {}
    for one in new:
        by_target.setdefault(options.to or one.origin.topic, []).append(one)
    steps = [
        Step(target, f"send {_records(len(some))} to {target}")
        for target, some in sorted(by_target.items())
    ]
    if not steps:
        steps = [Step(letters.topic, "send nothing: no dead letter is left")]
    if not begins(options, steps):
        return unchanged(options, steps)
    outcomes = Outcomes(options)
    mover = await open_mover(cluster, letters.marks) if new else None
    for target, some in sorted(by_target.items()):
        assert mover is not None
        moves = [await _move(cluster, options.group, one, target) for one in some]
        wanted = [move for move in moves if move is not None]
        sent = await mover.send(wanted)
        outcomes.done(target, f"done: sent {_records(sent)} to {target}")
        if len(wanted) < len(some):
            text = (
                f"{len(some) - len(wanted)} of the records have no copy, and their topic doesn't "
                "have them any more"
            )
            outcomes.failed(target, KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE), text)
    return outcomes.finish()


def _records(number: int) -> str:
    return "1 record" if number == 1 else f"{number} records"


async def _move(cluster: Cluster, group: str, one: DeadLetter, target: str) -> Move | None:
    """What to send; None if nobody has the record any more. KafkaError."""
    record = one.letter if one.has_copy else await _read(cluster, one)
    if record is None:
        return None
    kept = tuple(header for header in record.headers if not header[0].startswith(PREFIX))
    headers = (*(header for header in kept if header[0] != ORIGIN), (ORIGIN, one.place.encode()))
    key = None if record.key is None else bytes(record.key)
    value = None if record.value is None else bytes(record.value)
    new = NewRecord(record.timestamp, key, value, headers)
    return Move(_mark(group, one.place), target, new)


async def _read(cluster: Cluster, one: DeadLetter) -> Record | None:
    """The record of a dead letter without a copy, from its topic."""
    try:
        fetched = (await read_some(cluster, {one.origin: one.offset})).get(one.origin)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return None
        raise
    for record in fetched.records if fetched is not None else ():
        if record.offset == one.offset and record.timestamp <= one.letter.timestamp:
            return record
    return None
