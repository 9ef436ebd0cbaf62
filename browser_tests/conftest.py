"""A browser and two brokers for all tests of the page."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from browser_tests import surroundings
from browser_tests.surroundings import Site

MISSING = "no Chromium here (Debian and Ubuntu: apt install chromium; or set KWIRE_CHROMIUM)"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip every test with one reason if there is no browser."""
    if surroundings.chromium() is None:
        for item in items:
            if "browser_tests" in item.path.parts:
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
