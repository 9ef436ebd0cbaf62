"""The records of ``__share_group_state``: the delivery states of share groups (KIP-932).

Each class is the record's fields, named as Kafka names them; keys are followed by their values.
"""

from kwire.protocol.types import Nested, Schema, array, int8, int16, int32, int64, string, uuid


class ShareSnapshotKey(Schema, versions=(0, 0), flexible=None):
    """A share partition."""

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


class StateBatch(Nested):
    """Records in the same state of delivery."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ShareSnapshotValue(Schema, versions=(0, 0), flexible=0):
    """The whole state of a share partition."""

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ShareUpdateKey(Schema, versions=(0, 0), flexible=None):
    """A share partition."""

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


class ShareUpdateValue(Schema, versions=(0, 0), flexible=0):
    """The changes of a share partition since its snapshot."""

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    state_batches: list[StateBatch] = array(StateBatch)
