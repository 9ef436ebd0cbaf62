"""A browser and two brokers for all tests of the page."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from browser_tests import surroundings
from browser_tests.surroundings import Site

HERE = Path(__file__).parent
MISSING = (
    "the page is not tested: no Chromium here "
    "(Debian and Ubuntu: apt install chromium; or set KWIRE_CHROMIUM)"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a browser, one skipped test says so for all of them."""
    if surroundings.chromium() is None:
        mine = [item for item in items if item.path.is_relative_to(HERE)]
        for item in mine[1:]:
            items.remove(item)
        for item in mine[:1]:
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with surroundings.browser() as launched:
        yield launched


@pytest.fixture(scope="session")
def small() -> Iterator[Site]:
    """A broker with a few topics, some of which have one partition."""
    with surroundings.site(is_large=False) as made:
        yield made


@pytest.fixture(scope="session")
def large() -> Iterator[Site]:
    """A broker with more than 10,000 partitions."""
    with surroundings.site(is_large=True) as made:
        yield made
