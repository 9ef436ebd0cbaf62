"""Replicas and leaderships move in a simulated cluster; clients lose nothing and don't fail."""

from contextlib import suppress
from pathlib import Path

import trio

from kwire.client.errors import ClientError
from kwire.config.broker import BrokerConfig
from kwire.errors import KafkaError
from tests.simulation.moves import TOPIC, ask_to_move, check_places, move, new_producer, rows_of
from tests.simulation.run import simulate
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import PARTITIONS, IdempotentProducer
from tests.simulation.world import World

LONGEST_PAUSE_S = 0.5
FAILED_WITHIN_S = 1.0


def test_a_partition_moves_while_it_is_written(seed: int, tmp_path: Path) -> None:
    """From one replica to another one, to two, and to all; then back to one of them."""

    async def scenario(world: World) -> None:
        producer = await new_producer(world, factor=1)
        for size in (1, 2, 3, 1):
            wanted = [world.random.sample([1, 2, 3], size) for _ in range(PARTITIONS)]
            await move(world, wanted)
            for _ in range(10):
                await producer.step()
            await world.until(
                lambda wanted=wanted: [list(row.replicas) for row in rows_of(world)] == wanted,  # type: ignore[misc]
                30,
                "the replicas are where they should be",
            )
            assert all(row.leader in row.replicas for row in rows_of(world))
        await producer.check()

    simulate(seed, tmp_path, scenario)


def test_a_rolling_restart_makes_nobody_wait(seed: int, tmp_path: Path) -> None:
    """Each broker hands over what it leads before it stops."""

    async def scenario(world: World) -> None:
        producer = await new_producer(world, min_insync_replicas="2")
        longest_s = 0.0
        for node in world.nodes.values():
            node.stop()
            while not node.is_down:
                longest_s = max(longest_s, await _timed_step(producer))
            assert all(row.leader not in (-1, node.node_id) for row in rows_of(world))
            for _ in range(5):
                longest_s = max(longest_s, await _timed_step(producer))
            node.start()
            await world.all_ready(30)
        assert longest_s < LONGEST_PAUSE_S, longest_s
        await producer.check()

    simulate(seed, tmp_path, scenario, replicated=True)


async def _timed_step(producer: IdempotentProducer) -> float:
    """How long one step of a producer takes."""
    began_s = trio.current_time()
    await producer.step()
    took_s = trio.current_time() - began_s
    await pass_s(0.02)
    return took_s


def test_preferred_leaders_lead_again(seed: int, tmp_path: Path) -> None:
    """Some minutes after a restart each broker leads what it led."""

    async def scenario(world: World) -> None:
        await new_producer(world)
        node = world.nodes[world.random.choice([1, 2, 3])]
        node.kill()
        is_elsewhere = [row.replicas[0] == node.node_id for row in rows_of(world)]
        await world.until(
            lambda: not any(row.leader == node.node_id for row in rows_of(world)), 20, "failover"
        )
        node.start()
        await world.all_ready(30)
        assert any(is_elsewhere)
        await world.until(
            lambda: all(row.leader == row.replicas[0] for row in rows_of(world)), 700, "preferred"
        )

    simulate(seed, tmp_path, scenario, replicated=True)


def test_whoever_has_all_records_leads_when_all_were_gone(seed: int, tmp_path: Path) -> None:
    """The last in the ISR, although others are back before it."""

    async def scenario(world: World) -> None:
        producer = await new_producer(world)
        for _ in range(10):
            await producer.step()
        order = world.random.sample(list(world.nodes.values()), 3)
        for node in order:
            node.kill()
            await pass_s(8 if node is not order[-1] else 1)
        for node in order:
            node.start()
            await pass_s(5)
        await world.all_ready(60)
        await producer.step()
        await producer.check()

    simulate(seed, tmp_path, scenario, replicated=True)


def test_a_disk_that_fails_hands_over_what_it_held(seed: int, tmp_path: Path) -> None:
    """S26: others lead within a second, and no record is missing; nor after the next start.

    One of the broker's two disks raises errors from a moment on. The other one goes on.
    """

    async def scenario(world: World) -> None:
        await _use_two_directories(world)
        producer = await new_producer(world)
        producer.pause_s = 0.05
        for _ in range(10):
            await producer.step()
        world.nursery.start_soon(producer.run)
        node = world.nodes[world.random.choice([1, 2, 3])]
        logs = node.broker.log_manager.logs
        first = next(n for n, row in enumerate(rows_of(world)) if row.leader == node.node_id)
        broken = logs[TOPIC, first].directory.parent
        held = {n for n in range(PARTITIONS) if logs[TOPIC, n].directory.parent == broken}
        assert held < set(range(PARTITIONS))
        led = {n for n in held if rows_of(world)[n].leader == node.node_id}
        node.disk.break_below(broken)
        await world.until(lambda: node.disk.failures, 10, "the disk's first error")
        await world.until(
            lambda: not any(rows_of(world)[n].leader in (-1, node.node_id) for n in led),
            FAILED_WITHIN_S,
            "what the disk led is led elsewhere",
        )
        await world.until(
            lambda: (
                {n for n, row in enumerate(rows_of(world)) if node.node_id not in row.isr} == held
            ),
            15,
            "what the disk held is elsewhere",
        )
        assert all(row.leader >= 0 for row in rows_of(world))
        node.kill()
        node.start()
        await world.all_ready(60)
        producer.stops = True
        await producer.has_ended.wait()
        await producer.check()

    simulate(seed, tmp_path, scenario)


async def _use_two_directories(world: World) -> None:
    """Start all brokers anew, each with one more data directory."""
    one = world.config

    def two(node_id: int, directory: Path) -> BrokerConfig:
        dirs = {"log.dirs": f"{directory},{directory}-2"}
        return BrokerConfig.load({**one(node_id, directory).given, **dirs})

    world.config = two  # type: ignore[method-assign]
    for node in world.nodes.values():
        node.stop()
        await world.until(lambda node=node: node.is_down, 20, "a stop")  # type: ignore[misc]
        node.start()
        await world.all_ready(30)


def test_replicas_move_while_brokers_die(seed: int, tmp_path: Path) -> None:
    """S18: moves begin, are changed and cancelled; whoever dies, nothing acknowledged is lost."""

    async def scenario(world: World) -> None:
        producer = await new_producer(world, factor=2, min_insync_replicas="2")
        world.nursery.start_soon(producer.run)
        admin, random = world.client("admin"), world.random
        with world.faults.numbered():
            for _ in world.rounds(12):
                replicas = random.sample([1, 2, 3], random.choice((2, 2, 3)))
                wanted = replicas if random.random() < 0.8 else None
                with suppress(KafkaError, ClientError):
                    await ask_to_move(admin, {random.randrange(PARTITIONS): wanted})
                await pass_s(random.random())
                node = random.choice(list(world.nodes.values()))
                match random.randrange(4):
                    case 0 if all(one.is_wanted for one in world.nodes.values()):
                        node.kill()
                    case 1 if all(one.is_wanted for one in world.nodes.values()):
                        node.stop()
                    case 2:
                        world.start_all()
                await pass_s(random.random() * 3)
        world.heal()
        await world.all_ready(90)
        await world.until(
            lambda: not any(row.adding or row.removing for row in rows_of(world)), 60, "all moved"
        )
        await check_places(world)
        producer.stops = True
        await producer.has_ended.wait()
        await producer.check()

    simulate(seed, tmp_path, scenario, replicated=True)
