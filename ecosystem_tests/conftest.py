"""The broker under test and names, as in compat_tests; and the environment of the programs."""

import tracemalloc  # noqa: F401 - pytest's hook imports it, halfway if garbage is collected then
from pathlib import Path

import pytest

from compat_tests.conftest import admin, bootstrap, names  # noqa: F401 - fixtures of these tests

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-ecosystem" / "bin" / "python"


@pytest.fixture(scope="session")
def python() -> Path:
    """The Python in whose environment the programs run."""
    if not PYTHON.exists():
        pytest.skip("their packages aren't installed: make ecosystem does that")
    return PYTHON
