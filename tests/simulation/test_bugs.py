"""The simulation finds mistakes in the protocol: one of a few seeds fails, for the right reason."""

import re
from pathlib import Path

import pytest

from tests.simulation import failures
from tests.simulation.bugs import BUGS, Bug
from tests.simulation.run import simulate
from tests.simulation.world import World

SEEDS = range(1, 13)
LEAST = 20

pytestmark = [  # a run that fails leaves its watches unfinished
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_there_are_twenty_bugs_at_least() -> None:
    """Each is a mistake of its own."""
    assert len({bug.put_in for bug in BUGS}) == len(BUGS) >= LEAST


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.put_in.__name__)
def test_a_bug_is_found(bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the mistake breaks is what a check says."""
    bug.put_in(monkeypatch)
    told = []
    for seed in sorted(SEEDS, key=lambda seed: seed != bug.seed):
        here = tmp_path / str(seed)
        here.mkdir()

        async def scenario(world: World) -> None:
            await failures.replicated(world, bug.fault)

        try:
            simulate(seed, here, scenario, replicated=True)
        except BaseExceptionGroup as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            told.append(str(error))
            if re.search(bug.match, told[-1]):
                return
    pytest.fail(f"no seed fails with {bug.match!r}: {told}")
