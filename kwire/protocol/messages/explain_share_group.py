"""ExplainShareGroup (API key 20002, kwire's own): the records in flight of a share group.

Version 0, flexible. Each broker tells of the partitions that it leads. Kafka has no such API: its
brokers tell nobody who has a record. kwire doesn't advertise it; only kwire's tools use it.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
)


class ExplainShareGroupRequest(Request, key=20_002, versions=(0, 0), flexible=0):
    """Asks for a group's records in flight; ``max_ranges`` is for all partitions together."""

    group_id: str = string()
    max_ranges: int = int32()


class Holder(Nested):
    """A member that has records of a partition, for how long it has had the first one at most."""

    member_id: str = string()
    records: int = int64()
    held_ms: int = int64()


class RecordRange(Nested):
    """Neighboring records with the same state, owner and deliveries.

    ``state`` is a number of Kafka's RecordState. Times are -1 for records that no member has.
    ``held_ms`` counts from the delivery or from the last renewal.
    """

    first_offset: int = int64()
    last_offset: int = int64()
    state: int = int8()
    member_id: str = string()
    delivery_count: int = int16()
    held_ms: int = int64(default=-1)
    lock_left_ms: int = int64(default=-1)


class SharePartitionData(Nested):
    """A partition: the offsets in flight are those from ``start_offset`` to ``next_offset``.

    The numbers of records count all of them, also if there are more ranges than the request asks
    for. ``redelivered`` counts those that were delivered before and are not done.
    """

    topic_name: str = string()
    partition_index: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    next_offset: int = int64()
    end_offset: int = int64()
    available: int = int64()
    acquired: int = int64()
    acknowledged: int = int64()
    archived: int = int64()
    redelivered: int = int64()
    holders: list[Holder] = array(Holder)
    ranges: list[RecordRange] = array(RecordRange)


class ShareEvent(Nested):
    """What has happened to records of the group; the time is in ms since the epoch."""

    at_ms: int = int64()
    topic_name: str = string()
    text: str = string()


class ShareCounts(Nested):
    """How many records this broker has delivered, and what became of them, since its start."""

    acquired: int = int64()
    redelivered: int = int64()
    acknowledged: int = int64()
    released: int = int64()
    archived: int = int64()
    expired: int = int64()


class ExplainShareGroupResponse(Response, key=20_002, versions=(0, 0), flexible=0):
    """The answer to ``ExplainShareGroupRequest``; empty if this broker knows no records."""

    error_code: int = int16()
    has_more: bool = boolean()
    partitions: list[SharePartitionData] = array(SharePartitionData)
    events: list[ShareEvent] = array(ShareEvent)
    counts: ShareCounts = struct(ShareCounts)
