"""All machines of a simulated cluster lose their power at once."""

from pathlib import Path

import pytest

from tests.simulation import failures
from tests.simulation.network import pass_s
from tests.simulation.world import World, simulate

FLUSHED = {"log.flush.interval.messages": "1"}


async def all_lose_power(world: World) -> None:
    """S13: in any order, within a moment; the machines come back in any order."""
    for _ in range(3):
        nodes = world.random.sample(list(world.nodes.values()), 3)
        for node in nodes:
            node.cut_power()
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
