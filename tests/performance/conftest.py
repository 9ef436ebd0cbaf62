"""Where the broker that is measured keeps its files, and what its measures leave behind."""

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.log.page_cache import is_cold

ROOT = Path(__file__).parents[2]


def tells_what_is_in_memory(directory):
    """Whether the file system knows what would have to wait for a disk; tmpfs does not."""
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(1 << 20))
        file.flush()
        return not is_cold(file.fileno(), 0, 1 << 20)


@pytest.fixture
def tmp_path(tmp_path):
    """A directory on a file system that tells what is in memory: elsewhere a fetch costs more."""
    if tells_what_is_in_memory(tmp_path):
        yield tmp_path
        return
    (ROOT / ".cache").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="costs-", dir=ROOT / ".cache") as directory:
        yield Path(directory)


@pytest.fixture(scope="module", autouse=True)
def later_collections_are_short() -> Iterator[None]:
    """A measure unfreezes what ``tests/conftest.py`` has frozen, also for other files of tests."""
    yield
    gc.collect()
    gc.freeze()
