"""S17: partitions of a simulated cluster of six brokers move to other three brokers."""

from collections.abc import Iterator
from pathlib import Path

import trio

from kwire.client.configs import Change, Resource, ResourceType, alter_configs
from kwire.client.leaders import TopicPartition
from kwire.client.producer import produce
from kwire.record.records import BatchBuilder
from tests.simulation.moves import TOPIC, check_places, move, new_producer, rows_of
from tests.simulation.replicas import MIN_ISR
from tests.simulation.run import simulate
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import PARTITIONS
from tests.simulation.world import DATE_MS, World

SIX = range(1, 7)
MOVED_WITHIN_S = 120
RATE = 20_000
"""Bytes per second of each broker's throttle."""
WINDOW_S = 11
"""The time over which the rate is an average: its bytes may pass at once in the beginning."""
RECORD_BYTES = 10_000
RECORDS = 12
"""So many records of this size are in each partition before it moves."""


def _elsewhere(world: World) -> list[list[int]]:
    """For each partition the three brokers that don't have it, in any order."""
    others = [sorted(set(SIX).difference(row.replicas)) for row in rows_of(world)]
    return [world.random.sample(nodes, 3) for nodes in others]


def _has_moved(world: World, wanted: list[list[int]]) -> bool:
    rows = rows_of(world)
    return [list(row.replicas) for row in rows] == wanted and not any(r.adding for r in rows)


def test_all_replicas_move_under_faults(seed: int, tmp_path: Path) -> None:
    """It completes while brokers die and cables are cut, and never waits for min ISR in vain."""

    async def scenario(world: World) -> None:
        producer = await new_producer(world, min_insync_replicas=str(MIN_ISR))
        producer.pause_s = 0.1
        world.nursery.start_soon(producer.run)
        wanted = _elsewhere(world)
        await pass_s(1)
        await move(world, wanted)
        with world.faults.numbered():
            for _ in _faults(world):
                await pass_s(world.random.random() * world.random.choice((0.2, 2, 8)))
        world.heal()
        await world.all_ready(60)
        await world.until(lambda: _has_moved(world, wanted), MOVED_WITHIN_S, "all have moved")
        done = producer.done
        await world.until(lambda: producer.done > done, 30, "the producer goes on")
        producer.stops = True
        await producer.has_ended.wait()
        await world.until(world.checks.all_equal, 30, "all replicas are equal")
        world.checks.check_equal()
        await check_places(world)
        await producer.check()

    simulate(seed, tmp_path, scenario, replicated=True, nodes=SIX)


def test_a_replica_moves_away_while_its_broker_is_down(seed: int, tmp_path: Path) -> None:
    """When it starts again, it puts the log aside, and keeps the others."""

    async def scenario(world: World) -> None:
        producer = await new_producer(world, min_insync_replicas=str(MIN_ISR))
        for _ in range(10):
            await producer.step()
        away = world.random.choice(list(world.nodes.values()))
        rows = [list(row.replicas) for row in rows_of(world)]
        mine = [index for index, nodes in enumerate(rows) if away.node_id in nodes]
        kept = world.random.choice(mine)
        elsewhere = _elsewhere(world)
        moves = [index for index in mine if index != kept]
        wanted = [elsewhere[n] if n in moves else row for n, row in enumerate(rows)]
        world.random.choice((away.kill, away.stop))()
        await world.until(lambda: away.is_down, 20, "a stop")
        await move(world, wanted)
        await world.until(lambda: _has_moved(world, wanted), MOVED_WITHIN_S, "all have moved")
        away.start()
        await world.all_ready(60)
        await check_places(world)
        assert len(list(away.data.glob(f"{TOPIC}-*-stray"))) == len(moves)
        await producer.step()
        await producer.check()

    simulate(seed, tmp_path, scenario, replicated=True, nodes=SIX)


def _faults(world: World) -> Iterator[None]:
    """One fault after the other, each at one broker at a time."""
    random = world.random
    for _ in world.rounds(6):
        node = random.choice(list(world.nodes.values()))
        match random.randrange(4):
            case 0:
                node.kill()
            case 1:
                node.stop()
            case 2:
                other = random.choice([one for one in SIX if one != node.node_id])
                world.network.cut(node.node_id, other)
            case _:
                node.leave_the_store()
        yield
        world.heal()
        yield


def test_a_throttled_move_keeps_to_its_rate(seed: int, tmp_path: Path) -> None:
    """No faster than the leaders' throttles allow; meanwhile min ISR is kept."""

    async def scenario(world: World) -> None:
        await new_producer(world, min_insync_replicas=str(MIN_ISR))
        client = world.client("filler")
        for index in range(PARTITIONS):
            builder = BatchBuilder()
            builder.add(DATE_MS, None, bytes(RECORD_BYTES))
            batch = bytes(builder.build())
            for _ in range(RECORDS):
                await produce(client, {TopicPartition(TOPIC, index): batch})
        everywhere = {
            f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")
        }
        await alter_configs(client, Resource(ResourceType.TOPIC, TOPIC), Change(everywhere, ()))
        for node_id in SIX:
            broker = Resource(ResourceType.BROKER, str(node_id))
            rate = {"leader.replication.throttled.rate": str(RATE)}
            await alter_configs(client, broker, Change(rate, ()))
        await world.all_ready(10)
        busiest = max(sum(row.leader == node for row in rows_of(world)) for node in SIX)
        least_s = busiest * RECORDS * RECORD_BYTES * 3 / RATE
        wanted = _elsewhere(world)
        began_s = trio.current_time()
        await move(world, wanted)
        while not _has_moved(world, wanted):
            assert all(len(row.isr) >= MIN_ISR for row in rows_of(world))
            assert trio.current_time() - began_s < 10 * least_s, "it doesn't end"
            await pass_s(0.05)
        took_s = trio.current_time() - began_s
        assert took_s > least_s - WINDOW_S, f"{took_s:.1f} s, {least_s:.1f} at the rate"

    simulate(seed, tmp_path, scenario, replicated=True, nodes=SIX)
