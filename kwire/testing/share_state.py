"""What is where in a share group: which records wait, who has which, what is done.

Example::

    state = kafka.share_state("workers")
    assert [(one.offset, one.member) for one in state.acquired] == [(0, worker_id)]

Rules:

- A partition's leader knows who has which record while members read there. Without a member, the
  persistent state says what is done.
- Records before the start offset are done, and are not listed. From there on each record is, also
  one that was never delivered.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kwire.protocol.messages.explain_share_group import (
    ExplainShareGroupRequest,
    ExplainShareGroupResponse,
    SharePartitionData,
)
from kwire.protocol.messages.read_share_group_state import (
    PartitionData,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateData,
)
from kwire.share.state_batches import RecordState
from kwire.testing.asking import Asker

Partition = tuple[str, int]

MAX_RANGES = 1_000_000
READ_ONLY_EPOCH = -1
"""With this leader epoch, reading a state fences no leader."""


class ShareRecord(NamedTuple):
    """A record, how often it was delivered, and the id of the member that has it, if one has."""

    topic: str
    partition: int
    offset: int
    deliveries: int
    member: str = ""


class ShareState(NamedTuple):
    """The records of a share group from the start offsets on, each list by partition and offset.

    ``start_offsets`` has the first offset that is not done, by topic and partition. A partition
    that the group has not read from yet is missing.
    """

    start_offsets: dict[Partition, int]
    available: list[ShareRecord]
    acquired: list[ShareRecord]
    acknowledged: list[ShareRecord]
    archived: list[ShareRecord]


class _Range(NamedTuple):
    first: int
    last: int
    state: RecordState
    deliveries: int
    member: str = ""


def find_share_state(
    asker: Asker,
    addresses: Iterable[str],
    group: str,
    topic_ids: dict[bytes, tuple[str, int]],
    ends_of: Callable[[Iterable[Partition]], dict[Partition, int]],
) -> ShareState:
    """The state of a group; ``topic_ids`` has each topic's name and number of partitions.

    ``ends_of`` gives the end offsets of partitions.
    """
    addresses = list(addresses)
    found: dict[Partition, tuple[int, list[_Range]]] = {}
    for topic_id, (topic, count) in topic_ids.items():
        for address in addresses:
            found |= _persistent(asker, address, group, topic_id, topic, count)
    for address in addresses:
        request = ExplainShareGroupRequest(group_id=group, max_ranges=MAX_RANGES)
        answer = asker.ask(address, request, 0, ExplainShareGroupResponse)
        for row in answer.partitions:
            found[row.topic_name, row.partition_index] = row.start_offset, _in_memory(row)
    ends = ends_of(found)
    state = ShareState({key: found[key][0] for key in sorted(found)}, [], [], [], [])
    lists = {
        RecordState.AVAILABLE: state.available,
        RecordState.ACQUIRED: state.acquired,
        RecordState.ACKNOWLEDGED: state.acknowledged,
        RecordState.ARCHIVING: state.archived,
        RecordState.ARCHIVED: state.archived,
    }
    for key in sorted(found):
        start, ranges = found[key]
        for one in _complete(start, ends[key], ranges):
            lists[one.state] += (
                ShareRecord(*key, offset, one.deliveries, one.member)
                for offset in range(one.first, one.last + 1)
            )
    return state


def _persistent(
    asker: Asker, address: str, group: str, topic_id: bytes, topic: str, count: int
) -> dict[Partition, tuple[int, list[_Range]]]:
    """The start offsets and states that a broker keeps as their coordinator."""
    rows = [PartitionData(partition=index, leader_epoch=READ_ONLY_EPOCH) for index in range(count)]
    request = ReadShareGroupStateRequest(
        group_id=group, topics=[ReadStateData(topic_id=topic_id, partitions=rows)]
    )
    answer = asker.ask(address, request, 0, ReadShareGroupStateResponse)
    found = {}
    for result in answer.results:
        for row in result.partitions:
            if not row.error_code and row.start_offset >= 0:
                found[topic, row.partition] = (
                    row.start_offset,
                    [
                        _Range(
                            one.first_offset,
                            one.last_offset,
                            RecordState(one.delivery_state),
                            one.delivery_count,
                        )
                        for one in row.state_batches
                    ],
                )
    return found


def _in_memory(one: SharePartitionData) -> list[_Range]:
    return [
        _Range(
            row.first_offset,
            row.last_offset,
            RecordState(row.state),
            row.delivery_count,
            row.member_id,
        )
        for row in one.ranges
    ]


def _complete(start: int, end: int, ranges: Iterable[_Range]) -> Iterator[_Range]:
    """The ranges from a start to an end; what no range has is available."""
    at = start
    for one in sorted(ranges):
        if one.last < at:
            continue
        first = max(one.first, at)
        if at < first:
            yield _Range(at, first - 1, RecordState.AVAILABLE, 0)
        yield one._replace(first=first)
        at = one.last + 1
    if at < end:
        yield _Range(at, end - 1, RecordState.AVAILABLE, 0)
