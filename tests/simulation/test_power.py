"""All machines of a simulated cluster lose their power at once."""

from contextlib import suppress
from pathlib import Path

import pytest

from kwire.client.topics import create_topics
from kwire.errors import KafkaError
from tests.simulation import failures
from tests.simulation.readers import Careless
from tests.simulation.run import simulate
from tests.simulation.scenarios import finish
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import FAILURES, IdempotentProducer, Workload
from tests.simulation.world import World

TOPIC = "t"
FLUSHED = {"log.flush.interval.messages": "1"}


async def all_lose_power(world: World) -> None:
    """S13: in any order, within a moment; the machines come back in any order."""
    for _ in world.rounds(3):
        nodes = world.random.sample(list(world.nodes.values()), 3)
        for node in nodes:
            node.lose_power()
            await pass_s(world.random.choice((0, 0, 0.5)) * world.random.random())
        await pass_s(world.random.random() * 3)
        for node in world.random.sample(nodes, 3):
            node.start()
            await pass_s(world.random.choice((0, 0, 5)) * world.random.random())
        await world.all_ready(60)
        await pass_s(1)


async def one_of_all_loses_power(world: World) -> None:
    """S13: all processes end, in any order, and one of their machines."""
    for _ in world.rounds(3):
        nodes = world.random.sample(list(world.nodes.values()), 3)
        unlucky = world.random.choice(nodes)
        for node in nodes:
            (node.lose_power if node is unlucky else node.kill)()
            await pass_s(world.random.choice((0, 0, 0.5)) * world.random.random())
        await pass_s(world.random.random() * 3)
        for node in world.random.sample(nodes, 3):
            node.start()
            await pass_s(world.random.choice((0, 0, 5)) * world.random.random())
        await world.all_ready(60)
        await pass_s(1)


def test_what_was_flushed_survives_a_power_cut_of_all(seed: int, tmp_path: Path) -> None:
    """With ``flush.messages=1`` nothing that was acknowledged is lost, whoever starts first."""

    async def scenario(world: World) -> None:
        await failures.replicated(world, all_lose_power)

    simulate(seed, tmp_path, scenario, replicated=True, settings=FLUSHED)


def test_one_machine_that_loses_its_pages_costs_nothing(seed: int, tmp_path: Path) -> None:
    """S13: fewer than min ISR machines lose what they hadn't flushed, and all processes end."""

    async def scenario(world: World) -> None:
        await failures.replicated(world, one_of_all_loses_power)

    simulate(seed, tmp_path, scenario, replicated=True)


def test_replicas_agree_after_a_power_cut_of_all(
    seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without flushes records may be lost, but the cluster is back by itself, and is one log.

    The leader of each partition that has lost records says from which offset on.
    """

    async def scenario(world: World) -> None:
        made = await create_topics(world.client("setup"), [TOPIC], partitions=6)
        assert not isinstance(made[TOPIC], KafkaError), made
        writers = [Careless(world, name, TOPIC) for name in ("one", "two")]
        for writer in writers:
            writer.pause_s = 0.05
            world.nursery.start_soon(writer.run)
        for _ in range(3):
            await pass_s(world.random.random() * 5)
            for node in world.nodes.values():
                node.lose_power()
            world.checks.may_lose()
            await pass_s(1)
            world.start_all()
            await world.all_ready(60)
        await finish(world, writers)
        for topic, index, offset in world.checks.lost:
            said = f"{topic}-{index} is led by a replica that may lack records"
            wanted = f"{said} (unclean election): records from offset {offset} on"
            assert wanted in caplog.text

    simulate(seed, tmp_path, scenario, replicated=True)


async def _create(world: World, topic: str) -> None:
    with suppress(*FAILURES):
        await create_topics(world.client(f"setup {topic}"), [topic], partitions=6)


def test_a_topic_that_has_just_begun_outlives_a_power_cut_of_all(seed: int, tmp_path: Path) -> None:
    """Whoever loses its new log with all pages, the cluster is back by itself.

    Nothing is lost that was flushed and that all in sync had.
    """

    async def scenario(world: World) -> None:
        for number in range(4):
            topic = f"{TOPIC}{number}"
            clients: list[Workload] = [
                IdempotentProducer(world, f"{topic} all", topic),
                Careless(world, f"{topic} one", topic),
            ]
            for workload in clients:
                workload.pause_s = 0.01
                world.nursery.start_soon(workload.run)
            world.nursery.start_soon(_create, world, topic)
            await pass_s(0.2 * world.random.random())
            nodes = list(world.nodes.values())
            for node in world.random.sample(nodes, 3):
                node.lose_power()
                await pass_s(world.random.choice((0, 0, 0.1)) * world.random.random())
            await pass_s(1)
            for node in world.random.sample(nodes, 3):
                node.start()
                await pass_s(world.random.choice((0, 0, 5)) * world.random.random())
            await world.all_ready(60)

    simulate(seed, tmp_path, scenario, replicated=True, settings=FLUSHED)
