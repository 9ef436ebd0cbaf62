"""Consumers that read from followers: the followers' answers, and the leaders' hints (KIP-392).

Behavior:

- A follower serves consumers that know KIP-392 (version 11) up to its own high watermark, whatever
  ``replica.selector.class`` says. Beyond the high watermark there are no records yet. Beyond the
  log's end the error is OFFSET_OUT_OF_RANGE, after which consumers ask the leader. While a thread
  truncates the follower's log, the error is OFFSET_NOT_AVAILABLE.
- With RackAwareReplicaSelector, a leader that is in another rack than the client answers at once
  and without records. It names a replica in the client's rack that is in sync and has the wanted
  offset; of several, the one with the most records.

Source: ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector of Kafka.
"""

from kwire.broker.partition import HostedPartition
from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.protocol.messages.fetch import FetchRequest, PartitionData

SINCE = 11


def followed(name: str, index: int, context: RequestContext) -> FollowerPartition:
    """The partition that a consumer reads from this follower.

    Raises KafkaError: NOT_LEADER_OR_FOLLOWER if this broker doesn't follow it, or if the client
    demands the leader; OFFSET_NOT_AVAILABLE.
    """
    found = context.broker.replica(name, index) if context.api_version >= SINCE else None
    if not isinstance(found, FollowerPartition):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"another broker leads {name}-{index}")
    if found.is_offline:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name}-{index} is offline")
    if found.cutting is not None:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"{name}-{index} is being cut")
    return found


def nearer(
    partition: HostedPartition,
    offset: int,
    request: FetchRequest,
    context: RequestContext,
) -> PartitionData | None:
    """The answer of a leader that knows a nearer replica with this offset; None if it doesn't."""
    rack, brokers = request.rack_id, context.broker.image.brokers
    is_asked = context.broker.selects_nearest and rack and context.api_version >= SINCE
    if not is_asked or not isinstance(partition, LeaderPartition):
        return None
    if brokers[context.broker.node_id].rack == rack:
        return None
    near = [
        (one.end_offset, one.node_id)
        for one in partition.followers.values()
        if one.node_id in partition.in_sync
        and one.log_start_offset <= offset <= one.end_offset
        and (known := brokers.get(one.node_id)) is not None
        and known.rack == rack
    ]
    if not near:
        return None
    return PartitionData(
        partition_index=partition.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.log_start_offset,
        preferred_read_replica=max(near)[1],
        records=b"",
    )
