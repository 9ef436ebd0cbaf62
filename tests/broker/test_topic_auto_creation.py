"""Topics that a Metadata request creates: one commit, Kafka's limits, nobody else is held up."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.broker import broker as broker_module
from kwire.broker.commits import TOPICS_PER_TURN
from kwire.budget.thread_pool import ThreadPool
from kwire.budget.work import SLICE_S
from kwire.errors import ErrorCode
from kwire.log.log_config import LogConfig
from kwire.metadata import controller
from kwire.metadata.changes import ConfigChanged
from kwire.metadata.image import ConfigResourceType, MetadataImage
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.testing.waiting import until
from tests.support.clock import step_clock
from tests.support.in_process import RawClient, RunningServer, running_server

VERSION = 9


def _wanted(names: list[str]) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=True)


async def _ask(client: RawClient, names: list[str]) -> dict[str, int]:
    response = await client.request(_wanted(names), VERSION, MetadataResponse)
    return {topic.name: topic.error_code for topic in response.topics}


async def test_all_new_topics_of_a_request_are_one_commit(tmp_path: Path) -> None:
    """A topic whose name is legal is there when the answer is; others keep their error."""
    async with running_server(tmp_path) as server:
        client = await server.connect()
        names = [f"t{number}" for number in range(40)]
        revision = server.broker.image.revision
        codes = await _ask(client, [*names[:20], "not a name", "", *names[20:], names[0]])
        assert server.broker.image.revision == revision + 1
        unknown = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert {code for name, code in codes.items() if name in names} == unknown
        assert codes["not a name"] == codes[""] == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert all(server.broker.partition(name, 0) for name in names)
        assert set((await _ask(client, names)).values()) == {ErrorCode.NONE}


async def test_a_topic_that_can_not_be_created_is_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A name that collides with an existing topic's name is refused, and the others are created."""
    async with running_server(tmp_path) as server:
        client = await server.connect()
        await _ask(client, ["a.b"])
        codes = await _ask(client, ["a_b", "new"])
        assert set(codes.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert "cannot create topic a_b by its first use" in caplog.text
        assert "new" in server.broker.image.topics_by_name


@pytest.mark.parametrize(
    ("count", "partitions"),
    [
        (10_001, 1),  # partitions
        (25_000, 1),  # more than twice as many: no first part of them is created
        (5001, 1),  # a record for each topic, and one for each partition
        (101, 100),
    ],
)
async def test_more_than_one_request_may_create_is_not_created(
    tmp_path: Path, count: int, partitions: int
) -> None:
    """As CreateTopics refuses it; a client of Kafka sees UNKNOWN_TOPIC_OR_PARTITION then."""
    async with running_server(tmp_path, {"num.partitions": str(partitions)}) as server:
        client = await server.connect()
        revision = server.broker.image.revision
        codes = await _ask(client, [f"t{number}" for number in range(count)])
        assert Counter(codes.values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: count}
        assert server.broker.image.revision == revision


async def _create(client: RawClient, topics: list[CreatableTopic]) -> dict[str | None, int]:
    request = CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=True)
    response = await client.request(request, 6, CreateTopicsResponse)
    return Counter(topic.error_message for topic in response.topics)


def _topic(name: str, partitions: int) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


async def test_create_topics_has_kafkas_two_limits(tmp_path: Path) -> None:
    """10,000 partitions, and 10,000 records; beyond them the request is refused as a whole."""
    async with running_server(tmp_path, {"num.partitions": "10"}) as server:
        client = await server.connect()
        many = [_topic(f"t{number}", 1) for number in range(5001)]
        assert await _create(client, many[:5000]) == {None: 5000}
        too_large = "Unable to perform excessively large batch operation."
        assert await _create(client, many) == {too_large: 5001}
        assert await _create(client, [_topic("t", 10_000), _topic("u", -5)]) == {too_large: 2}
        refused = await _create(client, [_topic("t", 9991), _topic("u", -1)])
        assert list(refused.values()) == [2]
        assert "number of partitions per request: 10001" in str(list(refused))


class CountedSteps(trio.abc.Instrument):
    """Counts how often something is done in one step of a task, at most."""

    def __init__(self) -> None:
        self.most = self.total = 0
        self._now = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Another task has its turn."""
        self._now = 0

    def count(self) -> None:
        """It is done once more."""
        self._now += 1
        self.total += 1
        self.most = max(self.most, self._now)


async def test_many_topics_are_decided_in_several_turns(tmp_path: Path, monkeypatch) -> None:
    """By Metadata and by CreateTopics: other clients have their turn in between."""
    counted, real = CountedSteps(), controller.topic_in_steps

    def counting(*arguments):
        counted.count()
        return real(*arguments)

    monkeypatch.setattr(controller, "topic_in_steps", counting)
    for module in ("kwire.budget.work", "kwire.budget.slices"):
        step_clock(monkeypatch, module, SLICE_S / 10)
    async with running_server(tmp_path) as server:
        client = await server.connect()
        trio.lowlevel.add_instrument(counted)
        await _ask(client, [f"t{number}" for number in range(100)])
        await _create(client, [_topic(f"u{number}", 1) for number in range(100)])
        trio.lowlevel.remove_instrument(counted)
    assert counted.total == 200
    assert counted.most <= TOPICS_PER_TURN


async def _hold_queue(server: RunningServer, until_set: trio.Event) -> None:
    """Have the turn in the queue of commits until an event is set."""

    async def decide(_: MetadataImage) -> list[ConfigChanged]:
        await until_set.wait()
        return []

    await server.broker.commit(decide)


@pytest.mark.parametrize("by", ["Metadata", "CreateTopics"])
async def test_no_topics_are_created_for_a_client_that_is_gone(tmp_path: Path, by: str) -> None:
    """It closed its connection while it waited; the others' requests are served as before."""
    async with running_server(tmp_path) as server, trio.open_nursery() as nursery:
        released = trio.Event()
        nursery.start_soon(_hold_queue, server, released)
        commits = server.broker.commits
        leaves, stays = await server.connect(), await server.connect()
        if by == "Metadata":
            await leaves.send(_wanted(["gone"]), VERSION)
        else:
            await leaves.send(CreateTopicsRequest(topics=[_topic("gone", 1)], timeout_ms=1000), 6)
        await until(lambda: commits.waiting == 1)
        await stays.send(_wanted(["there"]), VERSION)
        await until(lambda: commits.waiting == 2)
        connections = server.server.poller.connections
        assert not any(connection.info.is_gone() for connection in connections)
        await leaves.aclose()
        await until(lambda: any(connection.info.is_gone() for connection in connections))
        released.set()
        assert await stays.receive_frame()
        assert set(server.broker.image.topics_by_name) == {"there"}
        await until(lambda: len(connections) == 1)


async def test_logs_are_made_and_deleted_many_at_a_time(tmp_path: Path, monkeypatch) -> None:
    """A hundred topics cost a few turns of a thread, and their deletion looks at nothing else."""
    async with running_server(tmp_path) as server:
        runs: list[object] = []
        client = await server.connect()
        await _ask(client, ["first"])
        await server.delete_topic("first")
        logs, run = server.broker.threads.logs, ThreadPool.run

        async def noted(pool: ThreadPool, *work: Any, **how: Any) -> Any:
            runs.extend([work] if pool is logs else [])
            return await run(pool, *work, **how)

        monkeypatch.setattr(ThreadPool, "run", noted)
        names = [f"t{number}" for number in range(70)]
        await _ask(client, names)
        assert len(runs) == 9
        ids = [server.broker.image.topics_by_name[name].topic_id for name in names]
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=1000)
        await client.request(request, 5, DeleteTopicsResponse)
        assert len(runs) <= 9 + 9 + 2  # the deletion is noted before and after it
        assert server.broker.partitions() == []
        assert not any(server.broker.replica_manager.of_topic(one) for one in ids)


async def test_settings_are_worked_out_once_for_each_topic(tmp_path: Path, monkeypatch) -> None:
    """Not once for each partition, nor for each setting, nor for topics that they don't concern."""
    asked: list[str] = []
    real = broker_module.log_config

    def noted(name: str, *rest: Any) -> LogConfig:
        asked.append(name)
        return real(name, *rest)

    async with running_server(tmp_path, {"num.partitions": "5"}) as server:
        await _ask(await server.connect(), ["t", "u", "v"])
        monkeypatch.setattr(broker_module, "log_config", noted)
        topic, broker = ConfigResourceType.TOPIC, ConfigResourceType.BROKER
        changes = [
            ConfigChanged(topic, "t", "retention.ms", "1000"),
            ConfigChanged(topic, "t", "retention.bytes", "2000"),
        ]
        await server.broker.commit(lambda _: changes)
        assert asked == ["t"]
        assert server.broker.partition("t", 4).log.config.retention_bytes == 2000
        changes = [
            ConfigChanged(broker, "", "log.retention.ms", "3000"),
            ConfigChanged(broker, "", "min.insync.replicas", "2"),
        ]
        await server.broker.commit(lambda _: changes)
        assert asked == ["t", "t", "u", "v"]
        assert server.broker.partition("t", 4).log.config.retention_ms == 1000
        assert server.broker.partition("v", 4).log.config.retention_ms == 3000
        assert server.broker.partition("v", 0).log.config.min_insync_replicas == 2


async def test_a_partition_that_is_opened_twice_is_served_once(tmp_path: Path) -> None:
    """An offline partition is tried again while its topic gets more partitions, which opens it too.

    Fetches may wait on the first one; and its topic can be deleted.
    """
    async with running_server(tmp_path) as server:
        client = await server.connect()
        await _ask(client, ["t"])
        first = server.broker.partition("t", 0)
        topic = server.broker.image.topics_by_name["t"]
        server.broker.replica_manager.serve(topic, 0, first.log, is_new=True)
        assert server.broker.partition("t", 0) is first
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
        response = await client.request(request, 5, DeleteTopicsResponse)
        assert response.responses[0].error_code == ErrorCode.NONE
        assert server.broker.partitions() == []
