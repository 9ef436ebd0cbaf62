"""A share group on the page, as a queue: what waits, who has which records, what came again.

Rules:

- It asks what ``kwire share describe`` and ``kwire groups explain`` ask. This broker is the group's
  coordinator, and answers for the group. Who has which record only the leaders of the partitions
  know: this broker, and the others, which are asked at once (``ends``).
- Of what other brokers tell, only topics are shown that the coordinator's own answer has: that one
  has passed the rights of the page.
- Each broker is asked for ``MAX_RANGES`` ranges of records in flight; the numbers count all.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import trio

from kwire.broker.share_dead_letters import dead_letter_topic
from kwire.budget.slices import Slices
from kwire.client.share_groups import state_name, waiting_records
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponsePartition,
)
from kwire.protocol.messages.explain_group import GroupEvent
from kwire.protocol.messages.explain_share_group import (
    ExplainShareGroupRequest,
    ExplainShareGroupResponse,
    ShareCounts,
    SharePartitionData,
)
from kwire.protocol.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from kwire.web.cross_loop_calls import Observed
from kwire.web.page.asking import ask_broker
from kwire.web.page.ends import Key, OtherLeaders

MAX_RANGES = 100
MAX_EVENTS = 100
_DESCRIBE_VERSION = 1
_OFFSETS_VERSION = 1

_Offsets = dict[Key, DescribeShareGroupOffsetsResponsePartition]


class Worker(NamedTuple):
    """A member and its partitions; ``held_ms`` is for how long it has the first of its records."""

    client_id: str
    host: str
    member_id: str
    epoch: int
    assignment: list[tuple[str, list[int]]]
    records: int
    held_ms: int | None


class Holder(NamedTuple):
    """A member that has records of a partition, the first one for ``held_ms``."""

    client_id: str
    records: int
    held_ms: int


class QueuePartition(NamedTuple):
    """A partition. What isn't known is None, like a start offset that the group doesn't have yet.

    ``archived`` counts only records behind which others are still in flight.
    """

    topic: str
    partition: int
    start: int | None
    lag: int | None
    waiting: int | None
    acquired: int
    redelivered: int
    archived: int
    holders: Sequence[Holder]


class InFlight(NamedTuple):
    """Neighboring records with the same state, owner and deliveries; times only with an owner."""

    topic: str
    partition: int
    first: int
    last: int
    state: str
    deliveries: int
    client_id: str
    held_ms: int | None
    lock_left_ms: int | None

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1


class Queue(NamedTuple):
    """A share group; ``silent`` are the brokers that lead partitions and gave no answer.

    ``counts`` began when each broker started.
    """

    state: str
    epoch: int
    assignor: str
    dead_letter_topic: str
    workers: list[Worker]
    partitions: list[QueuePartition]
    in_flight: list[InFlight]
    has_more: bool
    counts: ShareCounts
    events: list[GroupEvent]
    silent: list[int]

    def total(self, name: str) -> int | None:
        """The sum of a number over all partitions; None if no partition knows it."""
        known = [value for one in self.partitions if (value := getattr(one, name)) is not None]
        return sum(known) if known or not self.partitions else None


async def gather_queue(
    observed: Observed, group_id: str, events: Sequence[GroupEvent], leaders: OtherLeaders
) -> Queue:
    """A share group, in the broker's event loop; ``events`` are its coordinator's. KafkaError."""
    slices = Slices()
    group = await _described(observed, group_id)
    offsets = await _offsets(observed, group_id)
    told, silent = await _explained(observed, group_id, offsets, leaders)
    in_memory: dict[Key, SharePartitionData] = {}
    for answer in told:
        for row in answer.partitions:
            await slices.give_way()
            key = row.topic_name, row.partition_index
            if key in offsets:
                in_memory[key] = row
    clients = {member.member_id: member.client_id for member in group.members}
    partitions = []
    for key, known in sorted(offsets.items()):
        await slices.give_way()
        partitions.append(_partition(key, known, in_memory.get(key), clients))
    topics = {topic for topic, _ in offsets}
    return Queue(
        group.group_state,
        group.group_epoch,
        group.assignor_name,
        dead_letter_topic(observed.broker.image, group_id),
        await _workers(group, in_memory.values(), slices),
        partitions,
        [one for key in sorted(in_memory) for one in _in_flight(in_memory[key], clients)],
        any(answer.has_more for answer in told),
        _summed(told),
        _merged(events, told, topics),
        silent,
    )


async def _described(observed: Observed, group_id: str) -> DescribedGroup:
    request = ShareGroupDescribeRequest(group_ids=[group_id])
    answer: Any = await ask_broker(observed, request, _DESCRIBE_VERSION)
    described: DescribedGroup = answer.groups[0]
    _check(described.error_code, described.error_message)
    return described


async def _offsets(observed: Observed, group_id: str) -> _Offsets:
    """What the persistent states say of each partition that has one."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)]
    )
    answer: Any = await ask_broker(observed, request, _OFFSETS_VERSION)
    found = answer.groups[0]
    _check(found.error_code, found.error_message)
    return {
        (topic.topic_name, row.partition_index): row
        for topic in found.topics
        for row in topic.partitions
    }


def _check(number: int, message: str | None) -> None:
    if number:
        raise KafkaError(ErrorCode(number), message or "the group can't be described now")


async def _explained(
    observed: Observed, group_id: str, partitions: Iterable[Key], leaders: OtherLeaders
) -> tuple[list[ExplainShareGroupResponse], list[int]]:
    """What the leaders of the partitions know, and which of them gave no answer."""
    broker = observed.broker
    request = ExplainShareGroupRequest(group_id=group_id, max_ranges=MAX_RANGES)
    told: list[ExplainShareGroupResponse] = [await ask_broker(observed, request, 0)]
    _check(told[0].error_code, None)
    others: set[int] = set()
    for topic, index in partitions:
        image = broker.image.topics_by_name.get(topic)
        if image is not None and index < len(image.partitions):
            others.add(broker.leader_of(image, index))
    silent: list[int] = []

    async def ask(node_id: int) -> None:
        answer = await leaders.ask(broker, node_id, request, ExplainShareGroupResponse, version=0)
        if answer is None or answer.error_code:
            silent.append(node_id)
        else:
            told.append(answer)

    async with trio.open_nursery() as nursery:
        for node_id in others - {broker.node_id, -1}:
            nursery.start_soon(ask, node_id)
    return told, sorted(silent)


def _partition(
    key: Key,
    known: DescribeShareGroupOffsetsResponsePartition,
    row: SharePartitionData | None,
    clients: Mapping[str, str],
) -> QueuePartition:
    start = known.start_offset if known.start_offset >= 0 else None
    lag = known.lag if known.lag >= 0 else None
    if row is None:  # without members its leader has nothing in memory, and nobody has a record
        return QueuePartition(*key, start, lag, lag, 0, 0, 0, ())
    holders = [
        Holder(_client(clients, one.member_id), one.records, one.held_ms) for one in row.holders
    ]
    return QueuePartition(
        *key,
        row.start_offset,
        lag,
        waiting_records(row),
        row.acquired,
        row.redelivered,
        row.archived,
        sorted(holders, key=lambda one: -one.held_ms),
    )


def _in_flight(row: SharePartitionData, clients: Mapping[str, str]) -> list[InFlight]:
    return [
        InFlight(
            row.topic_name,
            row.partition_index,
            one.first_offset,
            one.last_offset,
            state_name(one.state),
            one.delivery_count,
            _client(clients, one.member_id),
            one.held_ms if one.member_id else None,
            one.lock_left_ms if one.member_id else None,
        )
        for one in row.ranges
    ]


def _client(clients: Mapping[str, str], member_id: str) -> str:
    """A member's client id; its own id if it has none, or is gone."""
    return clients.get(member_id) or member_id


async def _workers(
    group: DescribedGroup, rows: Iterable[SharePartitionData], slices: Slices
) -> list[Worker]:
    """The members, with the records that each has in all partitions."""
    records: dict[str, int] = {}
    held_ms: dict[str, int] = {}
    for row in rows:
        for one in row.holders:
            await slices.give_way()
            records[one.member_id] = records.get(one.member_id, 0) + one.records
            held_ms[one.member_id] = max(held_ms.get(one.member_id, 0), one.held_ms)
    workers = []
    for member in group.members:
        await slices.give_way()
        workers.append(
            Worker(
                member.client_id,
                member.client_host.lstrip("/"),
                member.member_id,
                member.member_epoch,
                [(one.topic_name, one.partitions) for one in member.assignment.topic_partitions],
                records.get(member.member_id, 0),
                held_ms.get(member.member_id),
            )
        )
    return workers


def _summed(told: Iterable[ExplainShareGroupResponse]) -> ShareCounts:
    counts = ShareCounts()
    for answer in told:
        for field in ShareCounts.FIELDS:
            added = getattr(counts, field.name) + getattr(answer.counts, field.name)
            setattr(counts, field.name, added)
    return counts


def _merged(
    events: Sequence[GroupEvent], told: Iterable[ExplainShareGroupResponse], topics: set[str]
) -> list[GroupEvent]:
    """The coordinator's events and those of the leaders, this broker first; newest events first."""
    of_leaders = [
        GroupEvent(at_ms=one.at_ms, text=one.text)
        for place, answer in enumerate(told)
        for one in answer.events
        if not place or one.topic_name in topics
    ]
    merged = sorted([*events, *of_leaders], key=lambda one: -one.at_ms)
    return merged[:MAX_EVENTS]
