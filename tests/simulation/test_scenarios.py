"""Brokers survive what happens to a cluster, in any order: many seeds, in virtual time.

The scenarios are S5 to S9, S19, S20, S24, S27 and S28 of the cluster's design; S25 is in
test_cluster.py. All run at replication factor 1, where data doesn't fail over: the records of a
dead broker are there again when the broker is. ``test_replicated`` runs them with three replicas.
"""

from pathlib import Path

import pytest

from tests.simulation import scenarios
from tests.simulation.run import simulate
from tests.simulation.scenarios import under
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


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_clients_lose_nothing(fault, seed: int, tmp_path: Path) -> None:
    """What was acknowledged stays, transactions are whole, and the brokers agree at every step."""

    async def scenario(world: World) -> None:
        await under(world, fault)

    simulate(seed, tmp_path, scenario)
