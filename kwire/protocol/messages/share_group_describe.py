"""ShareGroupDescribe (API key 77): shows share groups (KIP-932).

Version 1, flexible.
"""

from kwire.protocol.types import (
    Nested,
    Request,
    Response,
    array,
    boolean,
    int16,
    int32,
    string,
    struct,
    uuid,
)


class ShareGroupDescribeRequest(Request, key=77, versions=(1, 1), flexible=0):
    """Shows share groups (KIP-932)."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


class TopicPartitions(Nested):
    """An element of ``topic_partitions`` in ``Assignment``."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


class Assignment(Nested):
    """The ``assignment`` in ``Member``."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Member(Nested):
    """An element of ``members`` in ``DescribedGroup``."""

    member_id: str = string()
    rack_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    assignment: Assignment = struct(Assignment)


class DescribedGroup(Nested):
    """An element of ``groups`` in ``ShareGroupDescribeResponse``."""

    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)


class ShareGroupDescribeResponse(Response, key=77, versions=(1, 1), flexible=0):
    """The answer to ``ShareGroupDescribeRequest``."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
