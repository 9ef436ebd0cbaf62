"""Ways around an ACL that have to be closed, beside those in the tables; on both brokers."""

from typing import Any

from compat_tests.authorization_cases import (
    AUTHORIZATION,
    Admin,
    Client,
    D,
    G,
    R,
    T,
    Things,
    W,
    codes,
)
from compat_tests.authorization_of_topics import produce_request
from kwire.errors import ErrorCode
from kwire.metadata.acls import PatternType
from kwire.protocol.messages import consumer_group_heartbeat as consumer
from kwire.protocol.messages import fetch, heartbeat, join_group, leave_group, metadata, sync_group
from kwire.protocol.types import ZERO_UUID
from kwire.testing.waiting import wait_until

OFFSETS = "__consumer_offsets"
PREFIX = 8
"""Topics of different tests begin differently after so many characters."""


def a_pattern(admin: Admin, client: Client, tries: int) -> None:
    """A regular expression (KIP-848) matches only topics that its member may describe."""
    seen, hidden = admin.things(), admin.things()
    admin.find_coordinator(seen.group)
    client.allow(seen, (G, R), (T, D))
    member_id = "VDdqRwIyRk6fPpCwVHJwmQ"

    def beat(regex: str) -> Any:
        request = consumer.ConsumerGroupHeartbeatRequest(
            group_id=seen.group,
            member_id=member_id,
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_regex=regex,
            topic_partitions=[],
        )
        return client.ask(request, 1)

    def assigned() -> set[bytes]:
        told = beat(f"{seen.topic}|{hidden.topic}").assignment
        return {one.topic_id for one in (told.topic_partitions if told else ())}

    # With many topics a broker matches in a thread, and assigns after a moment.
    assert wait_until(assigned, what="the member's partitions") == {seen.topic_id}


def an_instance(admin: Admin, client: Client, tries: int) -> None:
    """Who knows a static member's name can't push it out of its group."""
    things, own = admin.things(), admin.things()
    client.allow(own, (G, R))
    instance = f"instance-of-{things.group}"
    joined = admin.ask(_join(things, instance), 9)
    while joined.error_code:
        admin.find_coordinator(things.group)
        joined = admin.ask(_join(things, instance), 9)
    leaves = leave_group.LeaveGroupRequest(
        group_id=things.group,
        members=[leave_group.MemberIdentity(member_id="", group_instance_id=instance)],
    )
    beats = heartbeat.HeartbeatRequest(
        group_id=things.group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=instance,
    )
    syncs = sync_group.SyncGroupRequest(
        group_id=things.group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocol_name="range",
    )
    for request, version in ((leaves, 5), (beats, 4), (syncs, 5), (_join(things, instance), 9)):
        answer = client.ask(request, version)
        assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED, request
    assert not admin.ask(beats, 4).error_code


def _join(things: Things, instance: str) -> join_group.JoinGroupRequest:
    return join_group.JoinGroupRequest(
        group_id=things.group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=10_000,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def internal_topics(admin: Admin, client: Client, tries: int) -> None:
    """Offsets are read with READ only, and written by nobody, whatever an ACL allows."""
    things = admin.things()
    admin.find_coordinator(things.group)
    client.allow(things, (T, R), (T, W))
    asked = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=OFFSETS)])
    [found] = admin.ask(asked, 12).topics
    while found.error_code or found.topic_id == ZERO_UUID:
        [found] = admin.ask(asked, 12).topics
    offsets = things._replace(topic=OFFSETS, topic_id=found.topic_id)
    reads = fetch.FetchRequest(
        topics=[
            fetch.FetchTopic(
                topic=OFFSETS,
                topic_id=found.topic_id,
                partitions=[fetch.FetchPartition(partition_max_bytes=1000)],
            )
        ]
    )
    failed = {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert set(codes(client.ask(reads, 13))) & AUTHORIZATION == failed
    writes = produce_request(offsets)
    assert set(codes(client.ask(writes, 13))) & AUTHORIZATION == failed
    admin.allow(client.host, [(T, OFFSETS, W)])
    got = failed
    for _ in range(tries):
        if got == failed:
            got = set(codes(client.ask(writes, 13)))
    assert got == {ErrorCode.INVALID_TOPIC_EXCEPTION}


def a_name_that_only_begins_like_another(admin: Admin, client: Client, tries: int) -> None:
    """A literal ACL is no prefix, and a prefix is no name that is shorter."""
    things = admin.things()
    shorter = things.topic[:PREFIX]
    admin.allow(client.host, [(T, shorter, D)])
    admin.allow(client.host, [(T, f"{things.topic}-longer", D)], pattern=PatternType.PREFIXED)
    names = [shorter, things.topic, f"{things.topic}-longer-still"]
    asked = metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
    )
    missing, failed = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    expected = {names[0]: missing, names[1]: failed, names[2]: missing}
    told: dict[str, int] = {}
    for _ in range(tries):
        if told != expected:
            told = {topic.name: topic.error_code for topic in client.ask(asked, 12).topics}
    assert told == expected


BYPASSES = (a_pattern, an_instance, internal_topics, a_name_that_only_begins_like_another)
