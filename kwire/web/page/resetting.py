"""Resets the offsets of a group without members: plans the new offsets, then commits them."""

from typing import Any, NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.web.cross_loop_calls import Observed
from kwire.web.page.asking import ask_broker
from kwire.web.page.records import time_ms
from kwire.web.page.site import PageError

LATEST, EARLIEST = -1, -2
_LIST_VERSION, _COMMIT_VERSION = 11, 8


class Reset(NamedTuple):
    """What to reset: a partition of a topic, or all of them (-1).

    ``to`` is ``earliest``, ``latest``, ``offset`` or ``time``; ``value`` belongs to the last two.
    """

    group_id: str
    topic: str
    partition: int
    to: str
    value: str


class Move(NamedTuple):
    """The old offset of a partition, None if there was none, and the new one."""

    partition: int
    old: int | None
    new: int


async def plan(observed: Observed, reset: Reset, peer_host: str) -> list[Move]:
    """The new offsets, in the broker's event loop; PageError, KafkaError."""
    broker = observed.broker
    topic = broker.image.topics_by_name.get(reset.topic)
    if topic is None:
        raise PageError(404, f"there is no topic {reset.topic}")
    groups = broker.groups.coordinator_or_empty(reset.group_id).coordinator
    held = groups.offsets.of(reset.group_id)
    indexes = range(len(topic.partitions)) if reset.partition < 0 else [reset.partition]
    if reset.to == "offset":
        starts = await _offsets(observed, reset.topic, indexes, EARLIEST, peer_host)
        wanted = _whole(reset.value)
        ends = await _offsets(observed, reset.topic, indexes, LATEST, peer_host)
        new = {index: min(max(wanted, starts[index]), ends[index]) for index in indexes}
    else:
        timestamp = _timestamp(reset)
        new = await _offsets(observed, reset.topic, indexes, timestamp, peer_host)
        if any(offset < 0 for offset in new.values()):  # no record is as new as the time
            ends = await _offsets(observed, reset.topic, indexes, LATEST, peer_host)
            new = {index: ends[index] if offset < 0 else offset for index, offset in new.items()}
    moves = []
    for index in indexes:
        committed = held.get(reset.topic, index)
        moves.append(Move(index, committed.offset if committed else None, new[index]))
    return moves


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise PageError(400, f"{text[:40]!r} is no offset")
    return int(text)


def _timestamp(reset: Reset) -> int:
    if reset.to == "earliest":
        return EARLIEST
    if reset.to == "latest":
        return LATEST
    if reset.to == "time":
        return time_ms(reset.value)
    raise PageError(400, "reset to earliest, latest, offset or time")


async def _offsets(
    observed: Observed, topic: str, indexes: Any, timestamp: int, peer_host: str
) -> dict[int, int]:
    """The offset of each partition at this time; KafkaError."""
    partitions = [
        ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes
    ]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)]
    )
    answer = await ask_broker(observed, request, _LIST_VERSION, peer_host)
    for one in answer.topics[0].partitions:
        if one.error_code:
            raise KafkaError(ErrorCode(one.error_code), f"{topic}, partition {one.partition_index}")
    return {one.partition_index: one.offset for one in answer.topics[0].partitions}


async def commit(observed: Observed, reset: Reset, moves: list[Move], peer_host: str) -> None:
    """Commit the new offsets; PageError if the group has members."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=move.partition, committed_offset=move.new, committed_metadata=None
        )
        for move in moves
    ]
    request = OffsetCommitRequest(
        group_id=reset.group_id,
        topics=[OffsetCommitRequestTopic(name=reset.topic, partitions=partitions)],
    )
    answer = await ask_broker(observed, request, _COMMIT_VERSION, peer_host)
    codes = {one.error_code for one in answer.topics[0].partitions if one.error_code}
    if codes & {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}:
        raise PageError(409, "the group has members: stop them, then reset its offsets")
    if codes:
        raise PageError(409, f"the broker refuses: {ErrorCode(codes.pop()).name}")
