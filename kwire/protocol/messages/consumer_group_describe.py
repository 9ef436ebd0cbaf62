"""ConsumerGroupDescribe (API key 69): shows consumer groups of the new protocol (KIP-848).

Versions 0 to 1, flexible. Changes by version:

- 1: the response gains ``Member.member_type``; KIP-1099.
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
    string,
    struct,
    uuid,
)


class ConsumerGroupDescribeRequest(Request, key=69, versions=(0, 1), flexible=0):
    """Shows consumer groups of the new protocol (KIP-848)."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class TopicPartitions(Nested):
    """An element of ``topic_partitions`` in ``Assignment``."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class Assignment(Nested):
    """The ``assignment`` in ``Member`` and ``target_assignment`` in ``Member``."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Member(Nested):
    """An element of ``members`` in ``DescribedGroup``."""

    member_id: str = string()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable=True, default=None)
    assignment: Assignment = struct(Assignment)
    target_assignment: Assignment = struct(Assignment)
    member_type: int = int8(since=1, default=-1, ignorable=True)


class DescribedGroup(Nested):
    """An element of ``groups`` in ``ConsumerGroupDescribeResponse``."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)


class ConsumerGroupDescribeResponse(Response, key=69, versions=(0, 1), flexible=0):
    """The answer to ``ConsumerGroupDescribeRequest``."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
