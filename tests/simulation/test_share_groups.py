"""Share groups in a cluster whose leaders, coordinators and workers die: no record is lost."""

import re
from pathlib import Path

import pytest

from tests.simulation import scenarios
from tests.simulation.bugs import SHARE_BUGS, Bug
from tests.simulation.run import Scenario, first_of, simulate
from tests.simulation.scenarios import Fault, finish
from tests.simulation.share_workers import SETTINGS, TOPIC, Worker, begin_queue, check_queue
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import IdempotentProducer
from tests.simulation.world import World

SEEDS = range(1, 9)
FAULTS = [scenarios.kills, scenarios.lost_answers, scenarios.slow_network, scenarios.everything]


def work_under(fault: Fault) -> Scenario:
    """Let producers and workers work while a fault comes and goes, then heal all, and check."""

    async def scenario(world: World) -> None:
        queue = await begin_queue(world)
        producers = [IdempotentProducer(world, name, TOPIC) for name in ("p", "q")]
        for producer in producers:
            producer.pause_s = 0.3
        workloads = [*producers, *(Worker(world, name, queue) for name in ("a", "b", "c"))]
        for workload in workloads:
            world.nursery.start_soon(workload.run)
        await pass_s(1)
        with world.faults.numbered():
            await fault(world)
        await finish(world, workloads)
        await check_queue(world, queue)

    return scenario


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_record_is_dealt_with(fault, seed: int, tmp_path: Path) -> None:
    """It has one owner at a time, no delivery too many, and a dead letter if nobody accepts it."""
    simulate(seed, tmp_path, work_under(fault), replicated=True, settings=SETTINGS)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("bug", SHARE_BUGS, ids=lambda bug: bug.put_in.__name__)
def test_a_bug_is_found(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the mistake breaks is what a check says, with one of a few seeds."""
    bug.put_in(monkeypatch)
    told = []
    for seed in sorted(SEEDS, key=lambda seed: seed != bug.seed):
        here = tmp_path / str(seed)
        here.mkdir()
        try:
            simulate(seed, here, work_under(bug.fault), replicated=True, settings=SETTINGS)
        except BaseExceptionGroup as group:
            told.append(str(first_of(group)))
            if re.search(bug.match, told[-1]):
                return
    pytest.fail(f"no seed fails with {bug.match!r}: {told}")
