"""Kills of a cluster's processes under load: what each one costs its clients, in seconds.

Rules:

- Idempotent producers, one for each partition, write all the time.
- After the kills each acknowledged record is there once, in order; else AssertionError.
- A pause is the longest time without an answer from any of some partitions.
"""

import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.cluster.measure import Number, percentile
from bench.load import ask
from compat_tests.clients import QUIET
from compat_tests.cluster import KwireCluster
from compat_tests.crash_clients import Writer, read_all
from kwire.protocol.messages.describe_cluster import DescribeClusterRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until

TOPIC = "killed"
RECORD_BYTES = 100
WAIT_S = 60.0
SETTINGS = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300"}
"""Short sessions, so that an outage of etcd is longer than they are."""

ELECTION_MS = 500
"""What an operator sets for brokers and etcds of one room: etcd's default is meant for members
farther away, and its elections take up to 2 s, or twice that if votes split."""


class Bars(NamedTuple):
    """The bars of what the end of a controller costs, in seconds."""

    created: float | None = None
    others: float | None = None
    own: float | None = None


KILLED = Bars(created=1.0, own=1.5)
RESTARTED = Bars(others=0.3)

LOYAL = {"metadata.recovery.strategy": "none"}
"""Settings of a client that keeps to the brokers it knows when it reaches none of them. By default
librdkafka forgets them all and begins anew with its bootstrap addresses, which takes it up to two
seconds: a producer of one partition has only the connection to its leader."""


class Load:
    """Producers that write to all partitions of a topic, in a thread, during the ``with`` block."""

    def __init__(
        self,
        bootstrap: str,
        partitions: int,
        after: "Load | None" = None,
        loyal: Container[int] = (),
        **options: object,
    ) -> None:
        """``after`` is the load that wrote the records that are there already.

        ``options`` are those of the producers. Those of ``loyal`` partitions are also ``LOYAL``.
        """
        config = {"reconnect.backoff.ms": 20, **options}
        self.writers = [
            Writer(
                bootstrap,
                TOPIC,
                index,
                exactly_once=True,
                **config,
                **(LOYAL if index in loyal else {}),
            )
            for index in range(partitions)
        ]
        for writer, other in zip(self.writers, after.writers if after else (), strict=False):
            writer.next_offset = other.next_offset
        self.record_bytes = RECORD_BYTES
        self._ends = Event()
        self._thread = Thread(target=self._write)

    def __enter__(self) -> "Load":
        self._thread.start()
        try:
            self.wait(range(len(self.writers)))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _write(self) -> None:
        while not self._ends.is_set():
            for writer in self.writers:
                writer.send(1, self.record_bytes)

    def stop(self) -> None:
        """Write no more."""
        self._ends.set()
        self._thread.join()

    def wait(self, partitions: Sequence[int], since_s: float | None = None) -> float:
        """Wait until each of these has had an answer since then, by default since now; how long."""
        began_s = time.monotonic() if since_s is None else since_s
        writers = [self.writers[index] for index in partitions]

        def answered() -> bool:
            return all(w.answered_s and w.answered_s[-1] > began_s for w in writers)

        wait_until(answered, timeout_s=WAIT_S, what=f"answers for {TOPIC} {list(partitions)}")
        return time.monotonic() - began_s

    def pause(
        self, what: str, partitions: Sequence[int], since_s: float, bar: float | None = None
    ) -> Number:
        """The longest time that one of these partitions had no answer since then."""
        longest_s = 0.0
        for index in partitions:
            times_s = [at_s for at_s in self.writers[index].answered_s if at_s > since_s]
            gaps_s = (after - before for before, after in pairwise([since_s, *times_s]))
            longest_s = max(longest_s, *gaps_s)
        return Number(what, longest_s, "s", bar)

    def latency(
        self, share: float, since_s: float, faults_s: Sequence[float], apart_s: float
    ) -> float:
        """The percentile of the records' latency since then, but for a while after each fault."""
        found = [
            latency_s
            for writer in self.writers
            for at_s, latency_s in zip(writer.answered_s, writer.latencies_s, strict=False)
            if at_s > since_s and not any(0 <= at_s - fault_s <= apart_s for fault_s in faults_s)
        ]
        return percentile(found, share)

    def check(self, bootstrap: str) -> None:
        """After the end: every acknowledged record is there once, in order."""
        reader = new_reader(bootstrap)
        for writer in self.writers:
            rows = read_all(reader, TOPIC, writer.partition, writer.next_offset)
            writer.check(rows)
        reader.close()


def new_reader(bootstrap: str) -> Consumer:
    """A consumer that is in no group."""
    config = {"bootstrap.servers": bootstrap, "group.id": "kills", "enable.auto.commit": False}
    return Consumer(config, logger=QUIET)


def leaders(bootstrap: str, topic: str = TOPIC) -> list[int]:
    """The leader of each partition, as the first of these brokers tells it."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    [told] = ask(bootstrap.split(",")[0], request, 12).topics
    return [row.leader_id for row in sorted(told.partitions, key=lambda p: p.partition_index)]


def create_topic(
    bootstrap: str,
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    config: Mapping[str, str] | None = None,
) -> float:
    """Create a topic as a stock client does, again where it fails; how long it took.

    Each attempt has a client of its own: one that has taken a broker for the controller that was
    killed asks for it again and again.
    """
    began_s = time.monotonic()
    errors: list[str] = []

    def created() -> bool:
        admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
        topic = NewTopic(name, partitions, replicas, config=dict(config or {}))
        made = admin.create_topics([topic], request_timeout=5, operation_timeout=5)
        try:
            made[name].result(WAIT_S)
        except KafkaException as error:
            errors.append(str(error))
            return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
        return True

    try:
        wait_until(created, timeout_s=2 * WAIT_S, what=f"{name} to be created")
    except AssertionError as error:
        raise AssertionError(f"{error}: {errors[-1:]}") from error
    return time.monotonic() - began_s


class ClusterTrial:
    """Three brokers on three etcds under load; each scenario yields what it measured."""

    def __init__(self, directory: Path) -> None:
        self.cluster = KwireCluster(directory, SETTINGS, etcd_members=3, election_ms=ELECTION_MS)
        self._topics = 0

    def run(self, *scenarios: "Scenario") -> Iterator[Number]:
        """These scenarios, and the check at the end."""
        with self.cluster as cluster:
            create_topic(cluster.bootstrap, TOPIC, partitions=6)
            for broker in cluster.brokers.values():
                wait_until(lambda b=broker: sorted(leaders(b.bootstrap)) == [1, 1, 2, 2, 3, 3])  # type: ignore[misc]
            self.led = leaders(cluster.bootstrap)
            with Load(cluster.bootstrap, len(self.led)) as self.load:
                for scenario in scenarios:
                    yield from scenario(self)
            for writer in self.load.writers:
                writer.settle()
            self.load.check(cluster.bootstrap)
            log = cluster.log()
            assert "bug in" not in log, log

    def controllers(self) -> Iterator[Number]:
        """P3 and P4: the controller ends by SIGKILL and by SIGTERM."""
        yield from self._controller("P3 controller killed", BrokerProcess.kill, KILLED)
        yield from self._controller("P4 controller restarted", BrokerProcess.stop, RESTARTED)

    def controller_id(self) -> int:
        """The controller that all brokers name."""

        def named() -> int:
            request = DescribeClusterRequest(endpoint_type=1)
            told = {ask(b.bootstrap, request, 2).controller_id for b in self._running()}
            return told.pop() if len(told) == 1 else -1

        return wait_until(lambda: max(named(), 0), what="a controller that all brokers name")

    def _running(self) -> list[BrokerProcess]:
        return list(self.cluster.brokers.values())

    def wait_until_led(self) -> None:
        """Wait until every broker names the first leader of each partition."""
        for broker in self._running():
            wait_until(lambda b=broker: leaders(b.bootstrap) == self.led, what="all leaders")  # type: ignore[misc]

    def create(self, bootstrap: str) -> float:
        """Create one more topic; how long it took, in seconds."""
        self._topics += 1
        return create_topic(bootstrap, f"more-{self._topics}")

    def _controller(
        self, name: str, end: Callable[[BrokerProcess], object], bars: Bars
    ) -> Iterator[Number]:
        """The controller ends; another one takes over, and it comes back."""
        node_id = self.controller_id()
        broker = self.cluster.brokers[node_id]
        others = [b.bootstrap for b in self._running() if b is not broker]
        own = [index for index, leader in enumerate(self.led) if leader == node_id]
        rest = [index for index in range(len(self.led)) if index not in own]
        began_s = time.monotonic()
        end(broker)
        what = f"{name}: until a topic is created"
        yield Number(what, self.create(",".join(others)), "s", bars.created)
        self.load.wait(rest)
        broker.restart()
        self.load.wait(own)
        what = f"{name}: pause of other brokers' partitions"
        yield self.load.pause(what, rest, began_s, bars.others)
        what = f"{name}: pause of its own until it is back"
        yield self.load.pause(what, own, began_s, bars.own)
        self.wait_until_led()

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return self.cluster.bootstrap


Scenario: TypeAlias = Callable[[ClusterTrial], Iterator[Number]]
