"""Three brokers for a test, in a thread of the test's own process: one can be killed or cut off.

Example::

    with KafkaCluster() as kafka:
        kafka.topic("orders", records=["first"])
        kafka.kill(kafka.leader("orders"))
        application.run(bootstrap=kafka.bootstrap)

Rules:

- The brokers are those of ``kwire serve`` with etcd, in one event loop; the etcd is one in memory.
  They wait for no disk.
- Topics, offsets and transactions have a replica on every broker, and need two in sync.
- ``kill`` ends a broker as ``kill -9`` would. ``partition`` cuts a broker off from the others and
  from etcd, while clients still reach it. ``heal`` and ``restart`` bring it back.
- The helpers ask the leader or the coordinator, and wait for a new one if that is being elected.
- Faults are for the requests of clients to any of the brokers; requests among brokers meet none.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Self

from kwire.client.peer import OpenStream
from kwire.clock import Clock, steady_clock_ms
from kwire.cluster_server import ClusterServer
from kwire.config.broker import BrokerConfig
from kwire.errors import ErrorCode
from kwire.metadata.store import MetadataStore
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.testing.broker_log import COLLECTOR, BrokerLog
from kwire.testing.broker_thread import BrokerThread, Serving
from kwire.testing.cut_network import CutNetwork
from kwire.testing.directories import TestDirectory
from kwire.testing.ended import EndsWithBlock
from kwire.testing.faults.planning import Faults
from kwire.testing.helpers import Helpers, NewRecord, setting
from kwire.testing.kafka import (
    FAILED_STOP_TIMEOUT_S,
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    TEST_SETTINGS,
    checked,
    raise_bug,
)
from kwire.testing.process import BrokerFailed
from kwire.testing.quick_disk import QuickDisk
from kwire.testing.real_time import real_date_ms
from kwire.testing.simulated_etcd import SimulatedEtcd, SimulatedGateway, simulated_store
from kwire.testing.waiting import wait_until

BROKERS = (1, 2, 3)
WAIT_S = 20.0
GROUP_KEY = 0

CLUSTER_SETTINGS = {
    "kwire.metadata.store": "etcd://127.0.0.1:2379/in-memory",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class ClusterMember(ClusterServer):
    """A broker of the cluster, whose etcd and whose network are the test's."""

    def connect_by(self, gateway: SimulatedGateway, open_stream: OpenStream) -> None:
        """Use this etcd and this network."""
        self._gateway = gateway
        self._open_stream = self._open_to_brokers = open_stream

    async def _connect(self) -> MetadataStore:
        return simulated_store(
            self._gateway,
            f"{self.config.integer('node.id')}:{self._incarnation}",
            self._random,
            self.config.integer("broker.heartbeat.interval.ms"),
            self._clock.steady_ms,
            lambda: self._call_s,
        )


class KafkaCluster(Helpers, EndsWithBlock):
    """Three brokers with the ids 1, 2 and 3. ``settings`` are Kafka's, by name."""

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        start_timeout_s: float = START_TIMEOUT_S,
        log_level: int = logging.INFO,
    ) -> None:
        super().__init__()
        self.settings = checked(settings or {})
        self.faults = Faults()
        self.addresses: dict[int, str] = {}
        self._start_timeout_s = start_timeout_s
        self._directory = TestDirectory()
        self._log = BrokerLog(log_level)
        self._thread = BrokerThread(self._log)
        self._network = CutNetwork()
        self._etcd = SimulatedEtcd(Random())
        self._gateways = {node_id: self._etcd.gateway() for node_id in BROKERS}
        self._end_etcd: Callable[[], None] = lambda: None
        self._running: dict[int, Serving] = {}

    @property
    def bootstrap(self) -> str:  # type: ignore[override]
        """The addresses of all brokers, for a client."""
        return ",".join(self.addresses.values())

    def start(self) -> Self:
        """Start the brokers and wait until they are ready; BrokerFailed says why one isn't."""
        COLLECTOR.begin(self._log)
        try:
            self._thread.begin(self._start_timeout_s)
            self._serve_all()
        except BaseException:
            with suppress(BrokerFailed):  # the error of the start says why it doesn't end
                self._end_thread(FAILED_STOP_TIMEOUT_S)
            raise
        return self

    def stop(self) -> None:
        """End the brokers and remove their data; raises their first unexpected exception."""
        running, self._running = self._running, {}
        self._asker.close()
        try:
            for serving in running.values():
                self._thread.stop(serving, STOP_TIMEOUT_S, clean=False)
        finally:
            self._end_thread(STOP_TIMEOUT_S)
        for serving in running.values():
            raise_bug(serving)

    def reset(self, settings: Mapping[str, object] | None = None) -> None:
        """Give the cluster back as new, on the same ports: without topics, groups, data and faults.

        All brokers run and reach each other. The old ones end as by ``kill``.
        """
        if settings is not None:
            self.settings = checked(settings)
        self.faults.clear()
        running, self._running = self._running, {}
        self._asker.close()
        for serving in running.values():
            self._thread.stop(serving, STOP_TIMEOUT_S, clean=False)
        self._end_etcd()
        self.heal()
        self._directory.remove()
        self._directory = TestDirectory()
        self._etcd = SimulatedEtcd(Random())
        self._gateways = {node_id: self._etcd.gateway() for node_id in BROKERS}
        self._serve_all()
        for serving in running.values():
            raise_bug(serving)

    def kill(self, broker: int) -> None:
        """End a broker at once, as ``kill -9`` would; then ``restart``."""
        self._end_server(broker, clean=False)

    def restart(self, broker: int) -> None:
        """Stop a broker cleanly, unless it is gone, and start it on the same port and data."""
        self._end_server(broker, clean=True)
        self._serve(broker, self.addresses[broker])

    def partition(self, broker: int) -> None:
        """Cut a broker off from the other brokers and from etcd; clients still reach it."""
        _check_broker(broker)
        self._thread.call(partial(self._cut_off, broker))

    def heal(self) -> None:
        """End all partitions."""
        self._thread.call(self._heal)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of a partition's leader, as soon as there is one that isn't cut off."""
        what = f"{topic}-{partition} to have a leader"
        return wait_until(
            lambda: self._leader_if_known(topic, partition), timeout_s=WAIT_S, what=what
        )

    def coordinator(self, group: str) -> int:
        """The id of a group's coordinator, as soon as there is one that isn't cut off."""
        what = f"group {group!r} to have a coordinator"
        return wait_until(lambda: self._coordinator_if_known(group), timeout_s=WAIT_S, what=what)

    def http(self, broker: int) -> str:
        """The URL of a broker's page; ValueError without ``kwire.http.listen`` in the settings."""
        serving = self._running.get(broker)
        port = None if serving is None else serving.server.http
        if port is None:
            raise ValueError(f"broker {broker!r} has no page: give it kwire.http.listen")
        host, number = port.address
        return f"http://{host}:{number}"

    def topic(
        self,
        name: str,
        partitions: int | None = None,
        records: Iterable[NewRecord] = (),
        configs: Mapping[str, object] | None = None,
    ) -> str:
        """Like that of one broker; every broker that isn't cut off knows the topic then."""
        super().topic(name, partitions, (), configs)
        wait_until(
            lambda: all(self._knows(address, name) for address in self._reachable().values()),
            timeout_s=WAIT_S,
            what=f"topic {name!r} to be known to all brokers",
        )
        self.produce(name, records)
        return name

    def log(self) -> str:
        """The last lines that the brokers have logged."""
        return self._log.text()

    def _serve_all(self) -> None:
        """Start an etcd and all brokers, and wait until each knows the others."""
        self._end_etcd = self._thread.run_beside(self._etcd.run)
        for node_id in BROKERS:
            self._serve(node_id, self.addresses.get(node_id, "127.0.0.1:0"))
        wait_until(self._all_are_known, timeout_s=WAIT_S, what="all brokers to be known")

    def _serve(self, node_id: int, address: str) -> None:
        given = {name: setting(value) for name, value in self.settings.items()}
        directory = self._directory.path / str(node_id)
        config = BrokerConfig.load(
            TEST_SETTINGS
            | CLUSTER_SETTINGS
            | given
            | {"node.id": str(node_id), "log.dirs": str(directory)}
            | {"listeners": f"PLAINTEXT://{address}"}
        )
        server = ClusterMember(
            config,
            disk=QuickDisk(),
            clock=Clock(real_date_ms, steady_clock_ms),
            open_frame=self.faults.open_frame_of_clients,
        )
        server.connect_by(self._gateways[node_id], self._network.opener(node_id))
        self._running[node_id] = self._thread.start(server, self._start_timeout_s)
        host, port = server.addresses[0]
        self.addresses[node_id] = f"{host}:{port}"
        self._network.ports[port] = node_id

    def _end_server(self, node_id: int, *, clean: bool) -> None:
        _check_broker(node_id)
        self._asker.close()
        serving = self._running.pop(node_id, None)
        if serving is not None:
            self._thread.stop(serving, STOP_TIMEOUT_S, clean=clean)
        raise_bug(serving)

    def _cut_off(self, node_id: int) -> None:
        self._gateways[node_id].is_cut = True
        self._gateways[node_id].silence()
        self._network.cut(node_id)

    def _heal(self) -> None:
        for gateway in self._gateways.values():
            gateway.is_cut = False
        self._network.heal()

    def _end_thread(self, timeout_s: float) -> None:
        self._thread.at_end = self._directory.remove
        try:
            self._thread.end(timeout_s)
        finally:
            COLLECTOR.end(self._log)
            self._directory.remove()

    # Where the helpers ask

    def _reachable(self) -> dict[int, str]:
        """The addresses of the brokers that run and aren't cut off."""
        gone = self._network.cut_off
        return {n: self.addresses[n] for n in sorted(self._running) if n not in gone}

    def _any_broker(self) -> str:
        return next(iter(self._reachable().values()))

    def _all_brokers(self) -> Iterable[str]:
        return self._reachable().values()

    def _leader(self, topic: str, index: int) -> str:
        return self.addresses[self.leader(topic, index)]

    def _coordinator(self, group: str) -> str:
        return self.addresses[self.coordinator(group)]

    def _data_at_leader(self, topic: str, index: int) -> Path:
        return self._directory.path / str(self.leader(topic, index))

    def _metadata(self, address: str, topic: str | None = None) -> MetadataResponse:
        named = [] if topic is None else [MetadataRequestTopic(name=topic)]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
        return self._asker.ask(address, request, 9, MetadataResponse)

    def _all_are_known(self) -> bool:
        return all(
            len(self._metadata(address).brokers) == len(BROKERS)
            for address in self._reachable().values()
        )

    def _knows(self, address: str, topic: str) -> bool:
        [found] = self._metadata(address, topic).topics
        return found.error_code == ErrorCode.NONE and all(
            partition.leader_id in self._reachable() for partition in found.partitions
        )

    def _leader_if_known(self, topic: str, index: int) -> int:
        """The leader, if it says so itself; 0 if there is none."""
        for node_id, address in self._reachable().items():
            [found] = self._metadata(address, topic).topics
            for partition in found.partitions:
                if partition.partition_index == index and partition.leader_id == node_id:
                    return node_id
        return 0

    def _coordinator_if_known(self, group: str) -> int:
        """The coordinator; 0 if there is none."""
        request = FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=[group])
        address = self._any_broker()
        [found] = self._asker.ask(address, request, 4, FindCoordinatorResponse).coordinators
        is_there = not found.error_code and found.node_id in self._reachable()
        return found.node_id if is_there else 0


def _check_broker(node_id: int) -> None:
    if node_id not in BROKERS:
        raise ValueError(f"there is no broker {node_id!r}: they are 1, 2 and 3")
