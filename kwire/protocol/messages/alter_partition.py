"""AlterPartition (API key 56): asks the controller to change the in-sync replicas of a partition.

Versions 2 to 3, flexible. Changes by version:

- 3: the request loses ``AlterPartitionRequestPartitionData.new_isr``; the request gains
  ``AlterPartitionRequestPartitionData.new_isr_with_epochs``; KIP-903.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    int8,
    int16,
    int32,
    int64,
    uuid,
)


class BrokerState(Nested):
    """An element of ``new_isr_with_epochs`` in ``AlterPartitionRequestPartitionData``."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AlterPartitionRequestPartitionData(Nested):
    """An element of ``partitions`` in ``AlterPartitionRequestTopicData``."""

    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array(int32, until=2)
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, since=3)
    leader_recovery_state: int = int8()
    partition_epoch: int = int32()


class AlterPartitionRequestTopicData(Nested):
    """An element of ``topics`` in ``AlterPartitionRequest``."""

    topic_id: bytes = uuid(ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData] = array(AlterPartitionRequestPartitionData)


class AlterPartitionRequest(Request, key=56, versions=(2, 3), flexible=0):
    """Asks the controller to change the in-sync replicas of a partition."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionRequestTopicData] = array(AlterPartitionRequestTopicData)


class AlterPartitionResponsePartitionData(Nested):
    """An element of ``partitions`` in ``AlterPartitionResponseTopicData``."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    leader_recovery_state: int = int8(ignorable=True)
    partition_epoch: int = int32()


class AlterPartitionResponseTopicData(Nested):
    """An element of ``topics`` in ``AlterPartitionResponse``."""

    topic_id: bytes = uuid(ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData] = array(
        AlterPartitionResponsePartitionData
    )


class AlterPartitionResponse(Response, key=56, versions=(2, 3), flexible=0):
    """The answer to ``AlterPartitionRequest``."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData)
