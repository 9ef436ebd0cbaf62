"""Which broker the tests run against, and names that no other test uses.

``KWIRE_BOOTSTRAP=host:port`` (``make compat BOOTSTRAP=…``) names a broker that runs already; of a
cluster it names several brokers, separated by commas. Without it a kwire is started for the run, in
a process of its own. With ``KWIRE_NODES=3`` (``make compat-cluster``) these are three kwires on an
etcd. With ``KWIRE_COMPAT_PROTOCOL=SASL_SSL`` (``make compat-secured``) all clients log in.
"""

import os
import shutil
import tracemalloc  # noqa: F401 - pytest's hook imports it, halfway if garbage is collected then
import uuid
from collections.abc import Iterator
from pathlib import Path

import kafka
import pytest

from compat_tests import secured_clients
from compat_tests.apache_kafka import QUICK_JVM, ApacheKafka
from compat_tests.cluster import KwireCluster
from compat_tests.command_line import CommandLine
from compat_tests.secured import secured_broker
from kwire.testing.process import BrokerProcess
from tests.names import show_names
from tests.support.etcd import MISSING, find_etcd

if secured_clients.IS_ON:
    secured_clients.patch()

NODES = int(os.environ.get("KWIRE_NODES") or 1)
IS_ONE_KWIRE = NODES == 1 and not (
    os.environ.get("KWIRE_BOOTSTRAP") or os.environ.get("KWIRE_SECURED") == "kafka"
)
"""Whether the broker is a kwire alone, which knows at once what it has answered."""

collect_ignore = [] if shutil.which("kcat") else ["test_kcat.py"]
if os.environ.get("KWIRE_BOOTSTRAP"):
    collect_ignore.append("test_crash.py")  # it kills a kwire of its own
OWN = f"{NODES} kwires on an etcd" if NODES > 1 else "a kwire of its own"


def pytest_configure(config: pytest.Config) -> None:
    """Show what runs."""
    show_names(config)
    ApacheKafka.jvm = QUICK_JVM


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Last come the tests after which an Apache Kafka lists no transactions until its next start.

    It doesn't load a partition of its topic of transactions that this topic had not at its start
    (TransactionStateManager), and answers COORDINATOR_LOAD_IN_PROGRESS.
    """
    items.sort(key=lambda item: item.path.name == "test_coordinator_topics.py")
    items[:] = _spread(items)


def _spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """Tests that wait for a minute stand where the share of a worker begins, more or less.

    At the end of a run they would keep one worker busy, and the others would have nothing to do.
    """
    seconds = {item: mark.args[0] for item in items if (mark := item.get_closest_marker("waits"))}
    waiting = sorted(seconds, key=lambda item: -seconds[item])
    others = [item for item in items if item not in seconds]
    # A file is not torn apart: its tests share what it has started.
    files = [n for n, item in enumerate(others) if not n or item.path != others[n - 1].path]
    found: list[pytest.Item] = []
    done = 0
    for number, item in enumerate(waiting):
        share = len(others) * number // len(waiting)
        beginning = min(files, key=lambda n: abs(n - share), default=0)
        found += [*others[done:beginning], item]
        done = beginning
    return found + others[done:]


def pytest_report_header() -> str:
    """Say what is under test, and what isn't for want of a program."""
    broker = os.environ.get("KWIRE_BOOTSTRAP") or OWN
    return f"broker: {broker}" + ("" if shutil.which("kcat") else "; kcat is not installed")


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port`` of the broker under test."""
    given = os.environ.get("KWIRE_BOOTSTRAP")
    if given:
        yield given
        return
    if NODES > 1 and find_etcd() is None:
        pytest.skip(MISSING)
    data_dir: Path = tmp_path_factory.mktemp("kwire")
    if secured_clients.IS_ON:
        with secured_broker(data_dir, secured_clients.AUTHORIZER) as (secured, _):
            yield secured_clients.use(secured)
        return
    with KwireCluster(data_dir, nodes=NODES) if NODES > 1 else BrokerProcess(data_dir) as broker:
        yield broker.bootstrap
        log = broker.log()
    assert "bug in" not in log, log


@pytest.fixture
def admin(bootstrap: str) -> Iterator[kafka.KafkaAdminClient]:
    """kafka-python's admin client."""
    client = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


class Names:
    """Names for topics and groups; the topics are deleted after the test."""

    def __init__(self) -> None:
        self.topics: list[str] = []

    def topic(self, hint: str = "topic") -> str:
        """A topic's name that nobody has used."""
        self.topics.append(f"{hint}-{uuid.uuid4().hex[:10]}")
        return self.topics[-1]

    def group(self, hint: str = "group") -> str:
        """A group's name that nobody has used."""
        return f"{hint}-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def names(admin: kafka.KafkaAdminClient) -> Iterator[Names]:
    """Names for this test."""
    used = Names()
    yield used
    existing = set(admin.list_topics())
    doomed = [name for name in used.topics if name in existing]
    if doomed:
        # Of a cluster, the broker that was asked may not know yet of the test's own deletions.
        admin.delete_topics(doomed, raise_errors=False)


@pytest.fixture
def cli(bootstrap: str, tmp_path: Path) -> CommandLine:
    """kwire's command line, for the broker under test."""
    return CommandLine(bootstrap, tmp_path)
