"""Nothing acknowledged is lost where every partition has three replicas: many seeds."""

from pathlib import Path

import pytest

from tests.simulation import failures, more_clients, scenarios
from tests.simulation.run import simulate
from tests.simulation.scenarios import under
from tests.simulation.soak import everything
from tests.simulation.world import World

FAULTS = [
    scenarios.store_down,
    scenarios.lost_answers,
    scenarios.stale_controller,
    scenarios.leases,
    scenarios.dead_watch,
    scenarios.kills,
    scenarios.slow_network,
    scenarios.drifting_clocks,
    scenarios.everything,
]


SCENARIOS = [*failures.SCENARIOS, *more_clients.SCENARIOS, everything]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_nothing_acknowledged_is_lost(fault, seed: int, tmp_path: Path) -> None:
    """What was acknowledged stays, transactions are whole, and replicas agree at every step."""

    async def scenario(world: World) -> None:
        await under(world, fault)

    simulate(seed, tmp_path, scenario, replicated=True)


@pytest.mark.parametrize("fault", SCENARIOS, ids=lambda fault: fault.__name__)
def test_replicas_survive(fault, seed: int, tmp_path: Path) -> None:
    """S1 to S4, S10 to S16, S19, S21 to S23, S28: busy clients lose nothing acknowledged."""

    async def scenario(world: World) -> None:
        await failures.replicated(world, fault)

    simulate(seed, tmp_path, scenario, replicated=True)
