"""OffsetDelete over a socket."""

import pytest

from kwire.coordinator.effects import Effects
from kwire.coordinator.records import OffsetCommitValue, offset_commit
from kwire.errors import ErrorCode
from kwire.protocol.codec import encode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kwire.protocol.messages.join_group import JoinGroupRequestProtocol
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)


def _commit(server, *partitions):
    home = server.broker.groups.coordinator("billing")
    effects = Effects()
    value = OffsetCommitValue(offset=5, commit_timestamp=server.broker.now_ms())
    for topic, index in partitions:
        effects.records.append(offset_commit("billing", topic, index, value))
    home.carry_out(effects)
    return home.coordinator.offsets


async def _delete(member, *partitions, group_id="billing"):
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
        )
        for topic, index in partitions
    ]
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)
    response = await member.client.request(request, 0, OffsetDeleteResponse)
    codes = [ErrorCode(p.error_code) for t in response.topics for p in t.partitions]
    return ErrorCode(response.error_code), codes


async def test_offsets_are_deleted_one_by_one(server, member):
    """One that isn't there is as good as deleted; a partition that isn't there is an error."""
    offsets = _commit(server, ("orders", 0), ("orders", 1))
    answer = await _delete(member, ("orders", 1), ("orders", 2), ("missing", 0), ("orders", 1))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer == (ErrorCode.NONE, [ErrorCode.NONE, unknown, unknown, ErrorCode.NONE])
    assert offsets.partitions_of("billing") == {("orders", 0)}


async def test_groups_that_have_none(server, member):
    """A group nobody knows is GROUP_ID_NOT_FOUND, an empty name INVALID_GROUP_ID."""
    assert await _delete(member, ("orders", 0)) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    answer = await _delete(member, ("orders", 0), group_id="")
    assert answer == (ErrorCode.INVALID_GROUP_ID, [])


async def test_offsets_of_topics_that_are_read_stay(server, member):
    """GROUP_SUBSCRIBED_TO_TOPIC; where it can't be told what is read, all of them."""
    offsets = _commit(server, ("orders", 0))
    subscription = encode(ConsumerProtocolSubscription(topics=["other"]), 0)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"\0\0" + subscription)]
    await member.join(version=3, protocols=protocols)
    await member.sync(**{member.member_id: b"x"})
    assert await _delete(member, ("orders", 0)) == (ErrorCode.NONE, [ErrorCode.NONE])
    assert not offsets.has("billing")
    _commit(server, ("orders", 0))
    await member.join(version=3)
    answer = await _delete(member, ("orders", 0))
    assert answer == (ErrorCode.NONE, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
    assert offsets.has("billing")


@pytest.mark.parametrize("has_member", [True, False])
async def test_other_protocols_keep_all_offsets_while_they_have_members(server, member, has_member):
    """NON_EMPTY_GROUP: of a group of Connect workers nobody knows what it reads."""
    _commit(server, ("orders", 0))
    if has_member:
        await member.join(version=3, protocol_type="connect")
    code = ErrorCode.NON_EMPTY_GROUP if has_member else ErrorCode.NONE
    assert (await _delete(member, ("orders", 0)))[0] == code
