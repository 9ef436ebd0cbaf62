"""Followers in a simulated cluster: they have what their leader has, whoever dies and returns."""

import errno
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.client.topics import create_topics
from kwire.config.broker import BrokerConfig
from kwire.errors import KafkaError
from kwire.log.partition_log import PartitionLog
from kwire.record.records import BatchBuilder
from tests.simulation.run import simulate
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import PARTITIONS, IdempotentProducer
from tests.simulation.world import DATE_MS, Node, World
from tests.support.log_scan import check_log, log_batches

TOPIC = "t"


def _cut_off(world: World, node: Node) -> None:
    """Cut the network between a broker and one of the others."""
    world.network.cut(node.node_id, node.node_id % 3 + 1)


EVENTS: tuple[Callable[[World, Node], object], ...] = (
    _cut_off,
    lambda world, node: node.kill(),
    lambda world, node: node.stop(),
    lambda world, node: node.freeze(),
    lambda world, node: node.lose_power(),
)


async def _replicated(world: World, configs: Mapping[str, str] | None = None) -> IdempotentProducer:
    """A topic on three brokers, and a producer."""
    client = world.client("setup")
    made = await create_topics(
        client, [TOPIC], partitions=PARTITIONS, replication_factor=3, configs=configs
    )
    assert not isinstance(made[TOPIC], KafkaError), made
    await world.until(lambda: _logs(world) is not None, 20, "the topic is everywhere")
    return IdempotentProducer(world, "p", TOPIC)


def _is_in_sync(world: World) -> bool:
    """Whether all replicas are in sync."""
    rows = world.checks.image.topics_by_name[TOPIC].partitions
    return all(len(row.isr) == len(row.replicas) for row in rows)


def _logs(world: World) -> list[list[PartitionLog]] | None:
    """The logs of each partition on all brokers that are up; None while one isn't there."""
    found = []
    for index in range(PARTITIONS):
        logs = []
        for node in world.nodes.values():
            if node.broker is not None:
                log = node.broker.log_manager.logs.get((TOPIC, index))
                if log is None:
                    return None
                logs.append(log)
        found.append(logs)
    return found


def _are_equal(world: World) -> bool:
    """Whether all replicas end at the same offset, and know their watermarks."""
    logs = _logs(world)
    if logs is None or any(len({log.log_end_offset for log in some}) > 1 for some in logs):
        return False
    return all(
        one.high_watermark == one.log.log_end_offset
        for node in world.nodes.values()
        if node.broker is not None
        for one in node.broker.hosted()
        if one.topic == TOPIC
    )


async def _check(world: World, producer: IdempotentProducer) -> None:
    """All replicas have the same bytes, and all that was acknowledged."""
    await world.until(lambda: _are_equal(world), 30, "all replicas are equal")
    for some in _logs(world) or ():
        contents: list[Any] = []
        for log in some:
            check_log(log)
            contents.append([bytes(batch.data) for batch in log_batches(log)])
        assert contents[0] == contents[1] == contents[2]
    await producer.check()


def test_followers_have_what_their_leader_has(seed: int, tmp_path: Path) -> None:
    """To the byte; and the high watermark reaches everybody without another append."""

    async def scenario(world: World) -> None:
        producer = await _replicated(world)
        for _ in range(40):
            await producer.step()
        began_s = trio.current_time()
        await _check(world, producer)
        world.note(f"equal after {trio.current_time() - began_s:.3f} s")

    simulate(seed, tmp_path, scenario)


def test_a_dead_leader_is_followed_by_another(seed: int, tmp_path: Path) -> None:
    """The others follow it; when it comes back, it follows them."""

    async def scenario(world: World) -> None:
        producer = await _replicated(world)
        for _ in range(20):
            await producer.step()
        for _ in range(3):
            dead = world.random.choice(list(world.nodes.values()))
            dead.kill()
            for _ in range(10):
                await producer.step()
            dead.start()
            await world.all_ready(30)
            for _ in range(10):
                await producer.step()
        await _check(world, producer)

    simulate(seed, tmp_path, scenario)


def test_what_a_dead_leader_alone_had_is_cut(seed: int, tmp_path: Path) -> None:
    """By leader epochs: other records are at those offsets now, and more of them."""

    async def scenario(world: World) -> None:
        producer = await _replicated(world)
        for _ in range(10):
            await producer.step()
        await world.until(lambda: _are_equal(world), 30, "all replicas are equal")
        dead = world.random.choice(list(world.nodes.values()))
        led = [one for one in dead.broker.partitions() if one.topic == TOPIC]
        assert led
        for partition in led:
            for _ in range(world.random.randint(1, 5)):
                lost = BatchBuilder()
                lost.add(DATE_MS, None, b"lost")
                partition.append(lost.build(), now_ms=DATE_MS, required_acks=1)
        dead.kill()  # in the same moment, before anybody fetches
        for _ in range(20):
            await producer.step()
        dead.start()
        await world.all_ready(30)
        await _check(world, producer)
        for some in _logs(world) or ():
            assert not any(b"lost" in bytes(batch.data) for batch in log_batches(some[0]))

    simulate(seed, tmp_path, scenario)


def test_a_failed_directory_moves_what_it_held(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its replicas leave the ISR, others lead, and it isn't taken for a follower any more."""
    config = World.config

    def with_two_directories(world: World, node_id: int, directory: Path) -> BrokerConfig:
        both = f"{directory},{directory.with_name('second')}"
        return config(world, node_id, directory).changed({"log.dirs": both})

    monkeypatch.setattr(World, "config", with_two_directories)

    async def scenario(world: World) -> None:
        producer = await _replicated(world)
        for _ in range(10):
            await producer.step()
        node = world.random.choice(list(world.nodes.values()))
        data = world.random.choice(node.broker.log_manager.data_directories)
        data.health.fail("a test", OSError(errno.EIO, "Input/output error"))
        lost = {one.index for one in node.broker.hosted() if one.topic == TOPIC and one.is_offline}
        assert lost

        def is_moved() -> bool:
            rows = world.checks.image.topics_by_name[TOPIC].partitions
            return all(
                (node.node_id in row.isr) == (index not in lost)
                and row.leader in row.isr
                and row.leader >= 0
                for index, row in enumerate(rows)
            )

        await world.until(is_moved, 2, "others have taken over")
        for _ in range(30):
            await producer.step()
        await pass_s(5)
        assert is_moved()
        node.kill()
        node.start()
        await world.all_ready(30)
        await _check(world, producer)

    simulate(seed, tmp_path, scenario)


def test_a_power_cut_costs_nothing_that_was_acknowledged(seed: int, tmp_path: Path) -> None:
    """Its replicas lack what wasn't on the disk, so they aren't in sync until they are."""

    async def scenario(world: World) -> None:
        producer = await _replicated(world)
        for _ in range(4):
            for _ in range(15):
                await producer.step()
                await pass_s(0.1)
            node = world.random.choice(list(world.nodes.values()))
            node.lose_power()
            for _ in range(5):
                await producer.step()
            node.start()
            await world.all_ready(30)
            await world.until(lambda: _is_in_sync(world), 40, "all replicas are in sync")
        await _check(world, producer)

    simulate(seed, tmp_path, scenario)


def test_whatever_happens_all_replicas_are_equal_in_the_end(seed: int, tmp_path: Path) -> None:
    """Cut networks, frozen brokers, deaths, stops and power cuts, one after the other and at once.

    Two machines never lose their power at once: then acknowledged records may be lost.
    """

    async def scenario(world: World) -> None:
        producer = await _replicated(world, {"min.insync.replicas": "2"})
        world.nursery.start_soon(producer.run)
        with world.faults.numbered():
            for _ in world.rounds(6):
                for what in world.random.sample(EVENTS, world.random.choice((1, 2, 3))):
                    node = world.random.choice(list(world.nodes.values()))
                    if node.broker is not None:
                        what(world, node)
                    await pass_s(world.random.random() * 3)
                world.heal()
                await world.all_ready(60)
                await world.until(lambda: _is_in_sync(world), 60, "all replicas are in sync")
        producer.stops = True
        with trio.fail_after(60):
            await producer.has_ended.wait()
        await _check(world, producer)

    simulate(seed, tmp_path, scenario)


def test_a_replica_that_lost_its_power_never_leads_by_itself(seed: int, tmp_path: Path) -> None:
    """It was eligible until then; it may lack what was acknowledged, so it waits for another."""

    async def scenario(world: World) -> None:
        producer = await _replicated(world, {"min.insync.replicas": "2"})
        for _ in range(10):
            await producer.step()
        first, cut, last = world.random.sample(list(world.nodes.values()), 3)

        def rows() -> Any:
            return world.checks.image.topics_by_name[TOPIC].partitions

        first.kill()
        await world.until(lambda: all(len(row.isr) == 2 for row in rows()), 20, "two in sync")
        for _ in range(10):
            await producer.step()
        cut.lose_power()
        await world.until(lambda: all(len(row.isr) == 1 for row in rows()), 20, "one in sync")
        assert all(cut.node_id in row.elr for row in rows())
        last.kill()
        cut.start()
        await world.until(lambda: cut.broker is not None, 20, "it is there again")
        await pass_s(5)
        assert all(row.leader != cut.node_id for row in rows())
        assert all(cut.node_id not in (*row.isr, *row.elr) for row in rows())
        world.heal()
        await world.all_ready(30)
        await _check(world, producer)

    simulate(seed, tmp_path, scenario)
