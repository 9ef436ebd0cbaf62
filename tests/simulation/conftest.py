"""The seeds of the simulation: one by default, ``--seed N`` one, ``KWIRE_SEEDS=A-B`` many.

With ``KWIRE_SPREAD`` each of the seeds runs one scenario, in turn, instead of all. So 100 seeds are
100 clusters. A test that fails in a run is run again with fewer faults, see ``replay``.
"""

import os
from collections.abc import Iterator

import pytest

from tests.simulation.replay import explained

SHORT = range(1, 2)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--seed N`` repeats one run."""
    parser.addoption("--seed", type=int, help="the seed of a simulated run that is to be repeated")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a seed runs once for each."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", _seeds(metafunc.config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave one scenario for each seed, if they are spread."""
    if not os.environ.get("KWIRE_SPREAD"):
        return
    taking = dict.fromkeys(_scenario(item) for item in items if _seed(item) is not None)
    numbers = {scenario: number for number, scenario in enumerate(taking)}
    kept, left_out = [], []
    for item in items:
        seed = _seed(item)
        is_kept = seed is None or numbers[_scenario(item)] == seed % len(numbers)
        (kept if is_kept else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Say which faults a failed run needs to fail."""
    if call.when == "call" and call.excinfo is not None:
        note = explained(call.excinfo.value)
        if note:
            call.excinfo.value.add_note(note)
    return (yield)


def _params(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _seed(item: pytest.Item) -> int | None:
    seed = _params(item).get("seed")
    return seed if isinstance(seed, int) else None


def _scenario(item: pytest.Item) -> tuple[str, ...]:
    """A test and its parameters but for the seed."""
    others = [str(value) for name, value in _params(item).items() if name != "seed"]
    return (item.nodeid.partition("[")[0], *others)


def _seeds(config: pytest.Config) -> list[int]:
    given = config.getoption("--seed", None)
    if given is not None:
        return [given]
    first, _, last = os.environ.get("KWIRE_SEEDS", "").partition("-")
    return list(range(int(first), int(last or first) + 1)) if first else list(SHORT)
