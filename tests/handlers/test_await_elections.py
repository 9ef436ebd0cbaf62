"""Metadata and FindCoordinator while a leader is being found dead: the answer has the new one."""

from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.failure_detector import SuspectedBrokers
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.testing.waiting import until
from tests.handlers.followers import TOPIC, Leader, leading


async def _leader_told(leader: Leader) -> int:
    client = await leader.running.connect()
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    response = await client.request(request, 12, MetadataResponse)
    await client.aclose()
    return response.topics[0].partitions[0].leader_id


async def _brokers_told(leader: Leader) -> list[int]:
    client = await leader.running.connect()
    response = await client.request(MetadataRequest(topics=[]), 12, MetadataResponse)
    await client.aclose()
    return sorted(broker.node_id for broker in response.brokers)


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elections take longer on a machine that is busy with tests."""
    monkeypatch.setattr("kwire.broker.failure_detector.PATIENCE_S", 25.0)


@pytest.mark.usefixtures("slowly")
async def test_the_answer_waits_for_the_election(tmp_path: Path) -> None:
    """A client that asks right after the death would ask again only a second later."""
    async with leading(tmp_path, leader=2) as leader, trio.open_nursery() as nursery:
        suspects = leader.broker.suspects = SuspectedBrokers()
        suspects.connection_lost(2, leader.broker.image)
        told: list[int] = []

        async def ask() -> None:
            told.append(await _leader_told(leader))

        nursery.start_soon(ask)
        await until(lambda: bool(suspects.waiters))
        await leader.change(leader=3, leader_epoch=2)  # of another broker: it goes on waiting
        assert not told
        await leader.fence(2)
        await until(lambda: bool(told))
        assert told == [3]
        assert not suspects.waiters


async def test_the_wait_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The death may not be one; then the leader of the image is right."""
    monkeypatch.setattr("kwire.broker.failure_detector.PATIENCE_S", 0.02)
    async with leading(tmp_path, leader=2) as leader:
        suspects = leader.broker.suspects = SuspectedBrokers()
        suspects.connection_lost(2, leader.broker.image)
        assert await _leader_told(leader) == 2
        leader.broker.suspects = SuspectedBrokers()
        leader.broker.suspects.connection_lost(2, leader.broker.image)
        client = await leader.running.connect()
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        response = await client.request(request, 4, FindCoordinatorResponse)
        assert [found.key for found in response.coordinators] == ["g"]
        await client.aclose()


async def test_a_dead_leader_is_in_the_answer_that_moves_its_partitions(tmp_path: Path) -> None:
    """librdkafka loses a partition whose old leader is gone with the same answer."""
    async with leading(tmp_path, leader=2) as leader:
        suspects = leader.broker.suspects = SuspectedBrokers()
        for node_id in (2, 3):
            await leader.register(node_id, endpoints=(("PLAINTEXT", "127.0.0.1", node_id),))
        suspects.record_connected([2], leader.broker.image)
        await leader.fence(2)
        await leader.fence(3)
        assert await _brokers_told(leader) == [leader.broker.node_id, 2]
