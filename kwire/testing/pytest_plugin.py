"""The pytest plugin: fixtures with a broker, and the broker's log in the report of a failing test.

The installation of kwire registers it (entry point ``pytest11``). ``-p no:kwire`` leaves it out.

Rules:

- Every run of pytest in an environment with kwire loads this module, so it imports nothing but
  pytest, and freezegun if that is installed. kwire and trio are imported when the first test uses a
  fixture.
- The fixtures are plain synchronous ones, whose brokers have threads of their own. So they work in
  tests of pytest-asyncio, pytest-trio and anyio, and with every client.
- Each worker of pytest-xdist is a process with brokers of its own.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from kwire.testing.kafka import Kafka
    from kwire.testing.kafka_cluster import KafkaCluster
    from kwire.testing.kafka_process import KafkaProcess
    from kwire.testing.kafka_secured import KafkaSecured

_B = TypeVar("_B", "Kafka", "KafkaSecured", "KafkaCluster", "KafkaProcess")

MARKER = "kafka"
FIXTURES = ("kafka", "kafka_session", "kafka_secured", "kafka_cluster", "kafka_process")
SECTION = "Kafka broker"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and have freezegun freeze no broker."""
    if find_spec("freezegun") is not None:
        # Before test modules are imported: a freeze_time has the list of its own beginning.
        import_module("freezegun").configure(extend_ignore_list=["kwire", "trio"])
    config.addinivalue_line(
        "markers",
        "kafka(settings={...}): settings of the brokers that the fixtures of kwire give this test",
    )


def _settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of a test: those of its module, its class and its own markers together."""
    found: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers(MARKER))):
        unknown = sorted(mark.kwargs.keys() - {"settings"})
        if mark.args or unknown:
            pytest.fail(
                f'the marker kafka takes settings={{"name": value}}, not {mark.args or unknown}',
                pytrace=False,
            )
        found.update(mark.kwargs.get("settings", {}))
    return found


@contextmanager
def _started(make: Callable[[], _B]) -> Iterator[_B]:
    """A broker, or a cluster, that runs in the block; the test fails in one line if it can't."""
    from kwire.testing.kafka import BrokerFailed

    try:
        broker = make()
        broker.start()
    except (BrokerFailed, ValueError) as error:
        pytest.fail(str(error), pytrace=False)
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator["Kafka"]:
    """A broker for this test alone, in a thread; its address is ``kafka.bootstrap``."""
    from kwire.testing.kafka import Kafka

    with _started(lambda: Kafka(_settings(request))) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_session_broker() -> Iterator["Kafka"]:
    """The broker of ``kafka_session``, whose address stays the same for the whole run."""
    from kwire.testing.kafka import Kafka

    with _started(Kafka) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_bootstrap(kafka_session_broker: "Kafka") -> str:
    """``host:port`` of ``kafka_session``, for an application that is configured once in a run."""
    return kafka_session_broker.bootstrap


@pytest.fixture
def kafka_session(
    request: pytest.FixtureRequest, kafka_session_broker: "Kafka"
) -> Iterator["Kafka"]:
    """The broker of this run, at the same address in each test, without other tests' data."""
    from kwire.testing.kafka import BrokerFailed

    settings = _settings(request)
    try:
        if kafka_session_broker.is_used or settings != kafka_session_broker.settings:
            kafka_session_broker.reset(settings)
    except (BrokerFailed, ValueError) as error:
        pytest.fail(str(error), pytrace=False)
    kafka_session_broker.is_used = True
    yield kafka_session_broker
    kafka_session_broker.raise_bug()


@pytest.fixture
def kafka_secured(request: pytest.FixtureRequest) -> Iterator["KafkaSecured"]:
    """A broker for this test alone, whose clients log in; ``kafka_secured.user`` makes users."""
    from kwire.testing.kafka_secured import KafkaSecured

    with _started(lambda: KafkaSecured(_settings(request))) as broker:
        yield broker


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator["KafkaCluster"]:
    """Three brokers for this test alone, in a thread; one can be killed or cut off."""
    from kwire.testing.kafka_cluster import KafkaCluster

    with _started(lambda: KafkaCluster(_settings(request))) as cluster:
        yield cluster


@pytest.fixture
def kafka_process(request: pytest.FixtureRequest) -> Iterator["KafkaProcess"]:
    """A broker for this test alone, in a process of its own."""
    from kwire.testing.kafka_process import KafkaProcess

    with _started(lambda: KafkaProcess(_settings(request))) as broker:
        yield broker


def pytest_runtest_setup() -> None:
    """Forget the reports of brokers that have ended with an earlier test."""
    ended = sys.modules.get("kwire.testing.ended")
    if ended is not None:
        ended.REPORTS.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the topics and the log of the test's brokers to the report of a failure."""
    report = yield
    if report.failed and "kwire.testing.ended" in sys.modules:
        values = getattr(item, "funcargs", {})
        brokers = [values[name] for name in FIXTURES if name in values]
        texts = [broker.report() for broker in brokers]
        texts += sys.modules["kwire.testing.ended"].REPORTS
        report.sections += [(SECTION, text) for text in texts]
    return report
