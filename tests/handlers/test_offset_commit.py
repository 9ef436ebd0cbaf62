"""OffsetCommit and OffsetFetch over a socket."""

import pytest

from kwire.errors import ErrorCode
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kwire.record.records import Record

UNKNOWN_ID = b"\x01" * 16


def _topic(server, version, *partitions, name="orders", topic_id=None):
    if topic_id is None and name in server.broker.image.topics_by_name:
        topic_id = server.broker.image.topics_by_name[name].topic_id
    return OffsetCommitRequestTopic(
        name=name if version < 10 else "",
        topic_id=topic_id if version >= 10 else bytes(16),
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            for index, offset, metadata in partitions
        ],
    )


async def _commit(server, member, version, *topics, **fields):
    values = {"group_id": "billing", "topics": list(topics)}
    request = OffsetCommitRequest(**(values | fields))
    response = await member.client.request(request, version, OffsetCommitResponse)
    return [
        (p.partition_index, ErrorCode(p.error_code)) for t in response.topics for p in t.partitions
    ]


async def _fetch(member, version, *groups, **fields):
    request = OffsetFetchRequest(groups=list(groups), **fields)
    return await member.client.request(request, version, OffsetFetchResponse)


def _read(topics):
    return {
        (t.name, p.partition_index): (p.committed_offset, p.metadata, ErrorCode(p.error_code))
        for t in topics
        for p in t.partitions
    }


async def test_offsets_are_committed_and_fetched(server, member):
    """In every version; a partition without an offset has -1."""
    for version in range(2, 11):
        codes = await _commit(server, member, version, _topic(server, version, (0, 41, "note")))
        assert codes == [(0, ErrorCode.NONE)]
        wanted = OffsetFetchRequestTopic(name="orders", partition_indexes=[0, 1])
        for fetch_version in range(1, 8):
            request = OffsetFetchRequest(group_id="billing", topics=[wanted])
            response = await member.client.request(request, fetch_version, OffsetFetchResponse)
            assert _read(response.topics) == {
                ("orders", 0): (41, "note", ErrorCode.NONE),
                ("orders", 1): (-1, "", ErrorCode.NONE),
            }
            assert response.error_code == ErrorCode.NONE


async def test_several_groups_are_fetched_at_once(server, member):
    """From version 8 on; no list of topics means every offset, one nobody knows has none."""
    await _commit(server, member, 9, _topic(server, 9, (0, 41, None)))
    await _commit(server, member, 9, _topic(server, 9, (1, 7, None)), group_id="other")
    response = await _fetch(
        member,
        8,
        OffsetFetchRequestGroup(group_id="billing", topics=None),
        OffsetFetchRequestGroup(
            group_id="other",
            topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1])],
        ),
        OffsetFetchRequestGroup(group_id="nobody", topics=None),
    )
    assert [(g.group_id, g.error_code) for g in response.groups] == [
        ("billing", 0),
        ("other", 0),
        ("nobody", 0),
    ]
    billing, other, nobody = (_read(group.topics) for group in response.groups)
    assert billing == {("orders", 0): (41, "", ErrorCode.NONE)}
    assert other[("orders", 1)] == (7, "", ErrorCode.NONE)
    assert nobody == {}


async def test_topics_are_named_by_id(server, member):
    """From version 10 on; an id that is none is UNKNOWN_TOPIC_ID, for its partitions alone."""
    codes = await _commit(
        server,
        member,
        10,
        _topic(server, 10, (0, 41, None)),
        _topic(server, 10, (0, 1, None), topic_id=UNKNOWN_ID),
    )
    assert codes == [(0, ErrorCode.NONE), (0, ErrorCode.UNKNOWN_TOPIC_ID)]
    topic_id = server.broker.image.topics_by_name["orders"].topic_id
    wanted = [
        OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0]),
        OffsetFetchRequestTopics(topic_id=UNKNOWN_ID, partition_indexes=[0]),
    ]
    response = await _fetch(member, 10, OffsetFetchRequestGroup(group_id="billing", topics=wanted))
    found, unknown = response.groups[0].topics
    assert (found.topic_id, found.partitions[0].committed_offset) == (topic_id, 41)
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    response = await _fetch(member, 10, OffsetFetchRequestGroup(group_id="billing", topics=None))
    assert [t.topic_id for t in response.groups[0].topics] == [topic_id]


async def test_each_offset_is_refused_by_itself(server, member):
    """A topic or partition that isn't there, or metadata that is too long."""
    codes = await _commit(
        server,
        member,
        9,
        _topic(server, 9, (0, 1, "x" * 4096), (1, 1, "x" * 4097), (2, 1, None)),
        _topic(server, 9, (0, 1, None), name="missing"),
    )
    assert codes == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


async def test_who_is_no_member_is_refused(server, member):
    """The offsets that could have been committed tell why; a missing topic keeps its own error."""
    topics = (_topic(server, 9, (0, 1, None)), _topic(server, 9, (0, 1, None), name="missing"))
    missing = (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    codes = await _commit(server, member, 9, *topics, generation_id_or_member_epoch=3)
    assert codes == [(0, ErrorCode.GROUP_ID_NOT_FOUND), missing]
    codes = await _commit(server, member, 8, *topics, generation_id_or_member_epoch=3)
    assert codes == [(0, ErrorCode.ILLEGAL_GENERATION), missing]
    await member.become_stable()
    assert await _commit(server, member, 9, *topics) == [(0, ErrorCode.UNKNOWN_MEMBER_ID), missing]
    as_member = {
        "generation_id_or_member_epoch": member.generation,
        "member_id": member.member_id,
    }
    assert await _commit(server, member, 9, *topics, **as_member) == [(0, ErrorCode.NONE), missing]


async def test_unstable_offsets_are_said_to_be(server, member):
    """Only to those who ask for stable ones (KIP-447)."""
    await _commit(server, member, 9, _topic(server, 9, (0, 41, None)))
    coordinator = server.broker.groups.coordinator("billing").coordinator
    [(key, value, _)] = _offset_record()
    coordinator.replay(Record(99, 0, key, value), 7, 0, loading=False)
    wanted = OffsetFetchRequestGroup(
        group_id="billing",
        topics=[OffsetFetchRequestTopics(name="orders", partition_indexes=[0])],
    )
    response = await _fetch(member, 9, wanted)
    assert _read(response.groups[0].topics)[("orders", 0)] == (41, "", ErrorCode.NONE)
    response = await _fetch(member, 9, wanted, require_stable=True)
    assert _read(response.groups[0].topics)[("orders", 0)] == (
        -1,
        "",
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
    coordinator.replay_end_transaction(7, committed=True)
    response = await _fetch(member, 9, wanted, require_stable=True)
    assert _read(response.groups[0].topics)[("orders", 0)] == (50, "", ErrorCode.NONE)


def _offset_record():
    from kwire.coordinator.records import OffsetCommitValue, offset_commit

    return [offset_commit("billing", "orders", 0, OffsetCommitValue(offset=50))]


async def test_an_empty_group_id_keeps_offsets(server, member):
    """Kafka lets very old clients commit without a group's name."""
    codes = await _commit(server, member, 9, _topic(server, 9, (0, 41, None)), group_id="")
    assert codes == [(0, ErrorCode.NONE)]


async def test_offsets_can_be_kept_for_ever(server, member):
    """A client that asks for the longest time there is gets it, though its end is past all time."""
    for keep_ms in (1 << 62, (1 << 63) - 1):
        topic = _topic(server, 4, (0, 41, "note"))
        codes = await _commit(server, member, 4, topic, retention_time_ms=keep_ms)
        assert codes == [(0, ErrorCode.NONE)]
    kept = server.broker.groups.coordinator("billing").coordinator.offsets.of("billing")
    [(_, _, committed)] = kept.items()
    assert committed.expire_timestamp_ms == (1 << 63) - 1


@pytest.mark.parametrize(("keep_ms", "expires_ms"), [(-1, -1), (-(1 << 62), 0), (0, None)])
async def test_offsets_are_kept_as_long_as_asked(server, member, keep_ms, expires_ms):
    """-1 is as long as the settings say; any other negative time is over already, as in Kafka."""
    topic = _topic(server, 4, (0, 41, "note"))
    await _commit(server, member, 4, topic, retention_time_ms=keep_ms)
    kept = server.broker.groups.coordinator("billing").coordinator.offsets.of("billing")
    [(_, _, committed)] = kept.items()
    if expires_ms is None:
        expires_ms = committed.commit_timestamp_ms
    assert committed.expire_timestamp_ms == expires_ms
