"""DeleteTopics: a topic is gone when it is answered, and its name is free."""

import pytest
import trio

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers import delete_topics
from kwire.metadata.changes import TopicDeleted, apply
from kwire.metadata.controller import NewTopic, create_topic
from kwire.metadata.image import MetadataImage
from kwire.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kwire.protocol.types import ZERO_UUID
from kwire.testing.waiting import until
from tests.support.gated_disk import RENAME, GatedDisk
from tests.support.in_process import running_server
from tests.support.sieve import refuse_commits


async def _delete(server, request, version):
    client = await server.connect()
    response = await client.request(request, version, DeleteTopicsResponse)
    await client.aclose()
    return sorted((r.name or "", r.error_code) for r in response.responses)


def _by_id(*ids):
    topics = [DeleteTopicState(name=None, topic_id=topic_id) for topic_id in ids]
    return DeleteTopicsRequest(topics=topics, timeout_ms=5000)


def _by_name(*names):
    return DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names], timeout_ms=5000
    )


@pytest.mark.parametrize("version", range(1, 7))
async def test_by_name(server, version):
    """Every version deletes by name; the files go, and the next topic has another id."""
    old = server.broker.image.topics_by_name["orders"].topic_id
    request = (
        _by_name("orders", "nope")
        if version == 6
        else DeleteTopicsRequest(topic_names=["orders", "nope"], timeout_ms=5000)
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await _delete(server, request, version) == [("nope", unknown), ("orders", 0)]
    assert ("orders", 0) not in server.broker.log_manager.logs
    await server.topic("orders")
    assert server.broker.image.topics_by_name["orders"].topic_id != old


async def test_by_id(server):
    """An id that is gone, or never was, is unknown."""
    topic_id = server.broker.image.topics_by_name["orders"].topic_id
    assert await _delete(server, _by_id(topic_id), 6) == [("orders", 0)]
    assert await _delete(server, _by_id(topic_id), 6) == [("", ErrorCode.UNKNOWN_TOPIC_ID)]


async def test_internal_topics_can_be_deleted(server):
    """As in Kafka, which leaves that to the operator."""
    assert await _delete(server, _by_name("__consumer_offsets"), 6) == [("__consumer_offsets", 0)]


async def test_many_topics_are_one_commit(server):
    """The disk is waited for once."""
    names = [f"t{number}" for number in range(20)]
    for name in names:
        await server.topic(name)
    revision = server.broker.image.revision
    assert await _delete(server, _by_name(*names), 6) == [(name, 0) for name in sorted(names)]
    assert server.broker.image.revision == revision + 1


async def test_ambiguous_requests_delete_nothing(server):
    """Neither, both, or the same one twice: the topic stays."""
    topic_id = server.broker.image.topics_by_name["orders"].topic_id
    invalid = ErrorCode.INVALID_REQUEST
    both = DeleteTopicState(name="orders", topic_id=topic_id)
    name, number = DeleteTopicState(name="orders"), DeleteTopicState(name=None, topic_id=topic_id)
    for topics in ([both], [name, name], [name, number], [number, name]):
        request = DeleteTopicsRequest(topics=topics, timeout_ms=5000)
        assert await _delete(server, request, 6) == [("orders", invalid)]
    assert await _delete(server, _by_id(ZERO_UUID), 6) == [("", invalid)]
    assert await _delete(server, _by_id(topic_id, topic_id), 6) == [("", invalid)]
    assert "orders" in server.broker.image.topics_by_name


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
async def test_deletion_can_be_switched_off(tmp_path, version, code):
    """delete.topic.enable=false keeps every topic."""
    async with running_server(tmp_path, {"delete.topic.enable": "false"}) as server:
        await server.topic("orders")
        request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=5000)
        assert await _delete(server, request, version) == [("orders", code)]


async def test_a_commit_that_fails_is_every_topics_error(server):
    """When the disk is full each topic says so, those that were refused anyway say why."""
    full = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space")
    refuse_commits(server.broker.commits.store, full)
    assert await _delete(server, _by_name("orders", "nope"), 6) == [
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", ErrorCode.KAFKA_STORAGE_ERROR),
    ]


async def test_a_decision_that_is_made_again_looks_only_at_what_was_found(server, monkeypatch):
    """Other clients' changes wait while it is made, and a request may name many unknown topics."""
    looked_at = []

    class Counted:
        async def give_way(self):
            looked_at[-1] += 1

    async def commit(context, decide):
        for image in (server.broker.image, MetadataImage()):
            looked_at.append(0)
            await decide(image, Counted())

    monkeypatch.setattr(delete_topics, "commit_in_slices", commit)
    names = [f"unknown-{n:03}" for n in range(100)]
    found = await _delete(server, _by_name("orders", *names), 6)
    assert found == [(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in ["orders", *names]]
    first, second = looked_at
    assert second < first / 20


async def test_committed_offsets_go_with_the_topic(server):
    """Otherwise consumers would skip the records of the next topic of that name."""
    await server.commit("billing", "orders", 41)
    assert await server.committed("billing", "orders") == 41
    await server.delete_topic("orders")
    await server.topic("orders")
    assert await server.committed("billing", "orders") == -1


async def test_committed_offsets_go_though_the_name_is_used_at_once(tmp_path):
    """Another client creates the topic anew while the many logs of the old one are deleted."""
    disk = GatedDisk()
    async with running_server(tmp_path, {"offsets.topic.num.partitions": "1"}, disk) as server:
        await server.topic("large", 20)
        await server.commit("billing", "large", 41)
        gate = disk.hold(RENAME, "large-")
        one, other = await server.connect(), await server.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.delete_topic, "large")
            await until(lambda: "large" not in server.broker.image.topics_by_name)
            nursery.start_soon(other.topic, "large")
            await until(lambda: "large" in server.broker.image.topics_by_name)
            assert await server.committed("billing", "large") == -1
            await server.commit("billing", "large", 41)
            gate.open()
        assert await server.committed("billing", "large") == 41


async def test_committed_offsets_go_if_one_commit_deletes_and_creates(server):
    """Two clients' decisions may share a commit. What is committed afterwards stays."""
    await server.commit("billing", "orders", 41)
    broker, wanted = server.broker, NewTopic("orders", 1, 1)

    def decide(image):
        deleted = TopicDeleted(image.topics_by_name["orders"].topic_id)
        without = apply(image, [deleted], image.revision)
        return [deleted, *create_topic(without, wanted, broker.random)]

    await broker.commit(decide)
    assert await server.committed("billing", "orders") == -1
    await server.commit("billing", "orders", 41)
    await broker.forget_deleted_topics()
    assert await server.committed("billing", "orders") == 41
