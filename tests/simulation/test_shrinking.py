"""A failed run is made small: fewer faults, the same invariant, and the same run each time."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from tests.simulation import bugs
from tests.simulation.faults import Faults
from tests.simulation.moves import new_producer
from tests.simulation.replay import LIMIT_VARIABLE, explained
from tests.simulation.run import ONLY_VARIABLE, Failure, failure_of, simulate
from tests.simulation.scenarios import everything
from tests.simulation.shrinking import smallest
from tests.simulation.world import World

pytestmark = [  # a run that fails leaves its watches unfinished
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("needed", [(), (0,), (11,), (3, 4), (0, 5, 11), tuple(range(12))])
def test_only_what_is_needed_is_left(needed: Sequence[int]) -> None:
    """Not a single thing more, wherever it is among the others."""
    found = smallest(list(range(12)), lambda these: set(needed) <= set(these), lambda: True)
    assert found == list(needed)


def test_one_that_needs_any_of_two_is_left_with_one() -> None:
    """A subset that fails is taken, also if another one would have failed too."""
    assert smallest(range(8), lambda these: 2 in these or 6 in these, lambda: True) == [6]


def test_time_that_is_up_leaves_what_has_failed_so_far() -> None:
    """No run begins after that."""
    tried = []

    def fails(these: Sequence[int]) -> bool:
        tried.append(list(these))
        return 7 in these

    assert smallest(range(8), fails, lambda: len(tried) < 2) == [4, 5, 6, 7]
    assert len(tried) == 2


MANY = 5
SEEDS = range(1, 13)
ENOUGH_S = 300.0


def _fail(seed: int, root: Path) -> tuple[BaseException, Failure] | None:
    """The failure of a run under all kinds of faults, if it fails."""

    async def scenario(world: World) -> None:
        producer = await new_producer(world)
        world.nursery.start_soon(producer.run)
        with world.faults.numbered():
            await everything(world)

    root.mkdir()
    try:
        simulate(seed, root, scenario, replicated=True)
    except BaseExceptionGroup as error:
        failure = failure_of(error)
        assert failure is not None
        return error, failure
    return None


def test_a_failed_run_says_which_faults_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that it prints breaks the same invariant, by fewer faults, each time the same."""
    bugs.anybody_leads(monkeypatch)
    monkeypatch.setenv(LIMIT_VARIABLE, str(ENOUGH_S))
    runs = (_fail(seed, tmp_path / f"{seed}") for seed in SEEDS)
    error, failure = next(run for run in runs if run and len(run[1].faults) >= MANY)

    said = explained(error)

    monkeypatch.setenv(LIMIT_VARIABLE, "0")
    assert explained(error) == ""
    command = f"{ONLY_VARIABLE}=(\\S+) PYTHONHASHSEED=.* --seed {failure.run.seed}$"
    [numbers] = re.findall(command, said)
    monkeypatch.setenv(ONLY_VARIABLE, numbers)
    replays = [_fail(failure.run.seed, tmp_path / name) for name in ("once", "again")]
    for replay in replays:
        assert replay is not None
        assert replay[1].invariant == failure.invariant
        assert [fault.number for fault in replay[1].faults] == numbers.split(",")
        assert 0 < len(replay[1].faults) < len(failure.faults)
        assert all(fault.note in said for fault in replay[1].faults)


def test_what_is_left_out_of_one_round_changes_no_other() -> None:
    """Numbers and draws are the same."""

    def drawn(only: Collection[str] | None) -> list[tuple[float, list[bool]]]:
        faults, found = Faults(1, str, only), []
        with faults.numbered():
            for number in faults.rounds(3):
                happened = [faults.happens(f"{number} {place}") for place in range(2)]
                if all(happened):
                    faults.random.random()
                found.append((faults.random.random() if number else 0.0, happened))
        return found

    whole, part = drawn(None), drawn(["3.1", "4.2"])
    assert [happened for _, happened in part] == [[False, False], [True, False], [False, True]]
    assert all(happened == [True, True] for _, happened in whole)
    fourth, third = drawn(["2.1", "4.1", "4.2"]), drawn(["3.1", "3.2", "4.1", "4.2"])
    assert whole[2] == fourth[2] == third[2]


def test_other_faults_always_happen() -> None:
    """What a test does on purpose has no number."""
    assert Faults(1, str, ()).happens("kill 1")
