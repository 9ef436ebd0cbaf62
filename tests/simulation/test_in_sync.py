"""Who is in sync in a simulated cluster: brokers that die and return, and followers cut off."""

import errno
from collections.abc import Iterator
from pathlib import Path

import trio

from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.client.topics import create_topics
from kwire.errors import KafkaError
from kwire.metadata.image import PartitionImage
from kwire.record.records import BatchBuilder
from tests.simulation.run import simulate
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import PARTITIONS
from tests.simulation.world import DATE_MS, World

TOPIC = "t"
BACK_WITHIN_S = 3.0
LAG_S = 30.0


async def made_topic(world: World) -> None:
    """A topic on three brokers, all in sync."""
    made = await create_topics(
        world.client("setup"), [TOPIC], partitions=PARTITIONS, replication_factor=3
    )
    assert not isinstance(made[TOPIC], KafkaError), made
    await world.until(lambda: are_in_sync(world, [1, 2, 3]), 20, "the topic is led everywhere")


def rows_of_topic(world: World) -> tuple[PartitionImage, ...]:
    """The topic in the newest image of those that are up."""
    images = [node.broker.image for node in world.nodes.values() if node.broker is not None]
    return max(images, key=lambda image: image.revision).topics_by_name[TOPIC].partitions


def _partitions(world: World) -> Iterator[LeaderPartition]:
    """The partitions where they are led."""
    for node in world.nodes.values():
        for partition in node.broker.partitions() if node.broker is not None else ():
            if partition.topic == TOPIC:
                yield partition


def are_in_sync(world: World, isr: list[int]) -> bool:
    """Whether every partition is led, knows this ISR, and has replicated all."""
    led = list(_partitions(world))
    return (
        len(led) == PARTITIONS
        and all(sorted(row.isr) == isr for row in rows_of_topic(world))
        and all(sorted(one.in_sync) == isr for one in led)
        and all(one.high_watermark == one.log.log_end_offset for one in led)
    )


def _append(world: World) -> None:
    """A record in each partition, as from a producer with acks=1."""
    for partition in _partitions(world):
        builder = BatchBuilder()
        builder.add(DATE_MS, None, b"value")
        partition.append(builder.build(), now_ms=DATE_MS, required_acks=1)


def test_a_broker_that_returns_is_in_sync_soon(seed: int, tmp_path: Path) -> None:
    """Records that it lacks, idle partitions and new leaderships make no difference."""

    async def scenario(world: World) -> None:
        await made_topic(world)
        _append(world)
        for _ in range(3):
            dead = world.random.choice(list(world.nodes.values()))
            dead.kill()
            rest = sorted(set(world.nodes) - {dead.node_id})
            await world.until(lambda rest=rest: are_in_sync(world, rest), 20, "two are in sync")
            if world.random.random() < 0.7:
                _append(world)
            dead.start()
            await world.all_ready(30)
            began_s = trio.current_time()
            await world.until(
                lambda: are_in_sync(world, [1, 2, 3]), BACK_WITHIN_S, "all are in sync"
            )
            world.note(f"in sync {trio.current_time() - began_s:.3f} s after it was ready")

    simulate(seed, tmp_path, scenario)


def test_a_follower_that_is_cut_off_falls_out_and_returns(seed: int, tmp_path: Path) -> None:
    """After the lag time, and only from the partitions whose leader it doesn't reach."""

    async def scenario(world: World) -> None:
        await made_topic(world)
        one, other = world.random.sample(sorted(world.nodes), 2)
        world.network.cut(one, other)
        _append(world)
        began_s = trio.current_time()
        watermarks = [(one, one.high_watermark) for one in _partitions(world)]

        def is_out() -> bool:
            return all(
                ({one, other} - {row.leader}).isdisjoint(row.isr)
                if row.leader in (one, other)
                else len(row.isr) == 3
                for row in rows_of_topic(world)
            )

        while not is_out():
            await pass_s(0.5)
            _append(world)
            assert trio.current_time() - began_s < 2 * LAG_S
        assert trio.current_time() - began_s >= LAG_S
        assert all(partition.high_watermark > before for partition, before in watermarks)
        world.network.heal()
        await world.until(lambda: are_in_sync(world, [1, 2, 3]), BACK_WITHIN_S, "all are in sync")

    simulate(seed, tmp_path, scenario)


def test_a_broker_without_room_leaves_at_once_and_returns(seed: int, tmp_path: Path) -> None:
    """Nobody waits for it until the lag time; with room it leads nothing, and is in sync again."""

    async def scenario(world: World) -> None:
        await made_topic(world)
        full = world.random.choice(list(world.nodes.values()))
        rest = sorted(set(world.nodes) - {full.node_id})
        [data] = full.broker.log_manager.data_directories
        data.health.refused("cannot append", OSError(errno.ENOSPC, "No space left on device"))
        await world.until(lambda: are_in_sync(world, rest), 1.0, "the others lead and are in sync")
        assert all(row.elr == () for row in rows_of_topic(world))
        _append(world)
        await world.until(
            lambda: are_in_sync(world, rest), 1.0, "records are replicated without it"
        )
        await world.until(lambda: not data.health.is_full, 30, "room on the disk")
        await world.until(lambda: are_in_sync(world, [1, 2, 3]), BACK_WITHIN_S, "all are in sync")

    simulate(seed, tmp_path, scenario)


def test_the_last_replica_in_sync_stays_without_room(seed: int, tmp_path: Path) -> None:
    """Its producers are refused; but nobody else may lead, and consumers read on."""

    async def scenario(world: World) -> None:
        await made_topic(world)
        for node in world.nodes.values():
            [data] = node.broker.log_manager.data_directories
            data.health.refused("cannot append", OSError(errno.ENOSPC, "No space left on device"))
        await pass_s(2)
        assert all(row.leader >= 0 and len(row.isr) == 1 for row in rows_of_topic(world))
        await world.until(lambda: are_in_sync(world, [1, 2, 3]), 30, "all are in sync")

    simulate(seed, tmp_path, scenario)
