"""TxnOffsetCommit (API key 28): stores the committed offsets of a group as part of a transaction.

Versions 0 to 6, flexible from 3. Changes by version:

- 1: the broker sends the response before it throttles the client (KIP-219).
- 2: the request gains ``TxnOffsetCommitRequestPartition.committed_leader_epoch``; KIP-320.
- 3: flexible encoding; the request gains ``generation_id_or_member_epoch``, ``member_id`` and
  ``group_instance_id``; the coordinator fences by member id and generation (KIP-447).
- 4: the response may carry the error TRANSACTION_ABORTABLE (KIP-890).
- 5: the request adds the group to the transaction (KIP-890).
- 6: topics have ids, and no names; the response may carry the errors GROUP_ID_NOT_FOUND,
  STALE_MEMBER_EPOCH and UNKNOWN_TOPIC_ID (KIP-1319).
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class TxnOffsetCommitRequestPartition(Nested):
    """An element of ``partitions`` in ``TxnOffsetCommitRequestTopic``."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=2, default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable=True)


class TxnOffsetCommitRequestTopic(Nested):
    """An element of ``topics`` in ``TxnOffsetCommitRequest``."""

    name: str = string(until=5, ignorable=True)
    topic_id: bytes = uuid(since=6, ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


class TxnOffsetCommitRequest(Request, key=28, versions=(0, 6), flexible=3):
    """Stores the committed offsets of a group as part of a transaction."""

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32(since=3, default=-1)
    member_id: str = string(since=3)
    group_instance_id: str | None = string(since=3, nullable=True, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Nested):
    """An element of ``partitions`` in ``TxnOffsetCommitResponseTopic``."""

    partition_index: int = int32()
    error_code: int = int16()


class TxnOffsetCommitResponseTopic(Nested):
    """An element of ``topics`` in ``TxnOffsetCommitResponse``."""

    name: str = string(until=5, ignorable=True)
    topic_id: bytes = uuid(since=6, ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


class TxnOffsetCommitResponse(Response, key=28, versions=(0, 6), flexible=3):
    """The answer to ``TxnOffsetCommitRequest``."""

    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
