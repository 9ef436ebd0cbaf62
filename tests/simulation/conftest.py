"""The seeds of the simulation: one by default, ``--seed N`` one, ``KWIRE_SEEDS=A-B`` many."""

import os

import pytest

SHORT = range(1, 2)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--seed N`` repeats one run."""
    parser.addoption("--seed", type=int, help="the seed of a simulated run that is to be repeated")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a seed runs once for each."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", _seeds(metafunc.config))


def _seeds(config: pytest.Config) -> list[int]:
    given = config.getoption("--seed", None)
    if given is not None:
        return [given]
    first, _, last = os.environ.get("KWIRE_SEEDS", "").partition("-")
    return list(range(int(first), int(last or first) + 1)) if first else list(SHORT)
