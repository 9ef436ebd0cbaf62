"""Brokers with a network of their own each, whose cables can be pulled.

Each broker is in a network namespace with two cables: one to the clients, one to the other brokers
and to etcd. A cable leads to a bridge of this machine, and a pulled one loses every packet: nobody
gets an error, as when a switch fails. It takes root on Linux.

The addresses are those of RFC 2544, which no network outside uses.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.reliability.clusters import (
    KAFKA,
    KWIRE,
    REPLICAS,
    REPLICATED,
    SESSION,
    Node,
    Trial,
)
from bench.rows.common import NotHere
from compat_tests.apache_kafka import KafkaCluster
from kwire.testing.process import BrokerProcess
from tests.support.etcd import Etcd

CLIENTS, CLUSTER = "clients", "cluster"
SIDES = {CLIENTS: "198.18.1", CLUSTER: "198.18.2"}
HOST = 254
PORTS = {CLIENTS: 9092, CLUSTER: 9093, "controller": 9094}


def _ip(*arguments: str) -> str:
    run = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if run.returncode:
        raise NotHere(f"ip {' '.join(arguments)}: {run.stderr.strip()}")
    return run.stdout


class Network:
    """The namespaces and bridges, for the ``with`` block; NotHere at its beginning."""

    def __init__(self) -> None:
        self._undo = ExitStack()
        self._mark = f"kw{os.getpid() % 100_000}"

    def __enter__(self) -> "Network":
        try:
            for side, net in SIDES.items():
                bridge = self.bridge(side)
                self._made(("link", "add", bridge, "type", "bridge"), ("link", "del", bridge))
                _ip("addr", "add", f"{net}.{HOST}/24", "dev", bridge)
                _ip("link", "set", bridge, "up")
            for node_id in range(1, REPLICAS + 1):
                self._add(node_id)
        except (NotHere, FileNotFoundError) as error:
            self._undo.close()
            raise NotHere(str(error)) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def _made(self, arguments: tuple[str, ...], undo: tuple[str, ...]) -> None:
        _ip(*arguments)
        self._undo.callback(_ip, *undo)

    def ip(self, *arguments: str) -> str:
        """What ``ip`` prints with these arguments; NotHere."""
        return _ip(*arguments)

    def mark(self, name: str) -> str:
        """The name of a device of this network's own."""
        return f"{self._mark}{name}"

    def bridge(self, side: str) -> str:
        """The bridge to which a cable leads."""
        return self.mark(side[:3])

    def _cable(self, node_id: int, side: str) -> str:
        return f"{self._mark}{side[:3]}{node_id}"

    def name(self, node_id: int) -> str:
        """The namespace of a broker."""
        return f"{self._mark}-{node_id}"

    def _add(self, node_id: int) -> None:
        name = self.name(node_id)
        self._made(("netns", "add", name), ("netns", "del", name))
        _ip("-n", name, "link", "set", "lo", "up")
        for side, net in SIDES.items():
            cable = self._cable(node_id, side)
            _ip("link", "add", cable, "type", "veth", "peer", "name", side, "netns", name)
            _ip("-n", name, "addr", "add", f"{net}.{node_id}/24", "dev", side)
            _ip("-n", name, "link", "set", side, "up")
            _ip("link", "set", cable, "up")
            self.heal(node_id, side)

    def cut(self, node_id: int, side: str) -> None:
        """Pull a cable."""
        _ip("link", "set", self._cable(node_id, side), "nomaster")

    def heal(self, node_id: int, side: str) -> None:
        """Plug a cable in."""
        _ip("link", "set", self._cable(node_id, side), "master", self.bridge(side))

    def heal_all(self) -> None:
        """Plug in every cable."""
        for node_id in range(1, REPLICAS + 1):
            for side in SIDES:
                self.heal(node_id, side)

    def prefix(self, node_id: int) -> tuple[str, ...]:
        """The command that runs another one in a broker's namespace."""
        return ("ip", "netns", "exec", self.name(node_id))


def address(node_id: int, side: str, port: str = "") -> str:
    """Where a broker listens."""
    return f"{SIDES[side]}.{node_id}:{PORTS[port or side]}"


class CabledBroker(BrokerProcess):
    """A kwire in a namespace; ``bootstrap`` is where clients reach it."""

    def __init__(
        self,
        node_id: int,
        directory: Path,
        settings: Mapping[str, str],
        net: Network,
    ) -> None:
        internal = ("--listen", f"INTERNAL://{address(node_id, CLUSTER)}")
        own = {**settings, "node.id": str(node_id), "inter.broker.listener.name": "INTERNAL"}
        super().__init__(
            directory,
            own,
            f"PLAINTEXT://{address(node_id, CLIENTS)}",
            options=internal,
            prefix=net.prefix(node_id),
        )
        self._client_address = address(node_id, CLIENTS)

    def start(self) -> "CabledBroker":
        """See ``BrokerProcess.start``."""
        super().start()
        self.bootstrap = self._client_address
        return self

    def restart(self) -> None:
        """See ``BrokerProcess.restart``."""
        if self._process is not None:
            self.stop()
        self.start()


@contextmanager
def cabled_kwire(directory: Path) -> Iterator[Trial]:
    """Three kwires with cables, on three etcds; NotHere."""
    with Network() as network, Etcd(REPLICAS, host=f"{SIDES[CLUSTER]}.{HOST}") as etcd:
        store = {"kwire.metadata.store": f"{etcd.url}/kwire"}
        settings = {**store, **REPLICATED, **SESSION}
        with ExitStack() as stack:
            brokers = {
                node_id: stack.enter_context(
                    CabledBroker(node_id, directory / str(node_id), settings, network)
                )
                for node_id in range(1, REPLICAS + 1)
            }
            nodes: dict[int, Node] = dict(brokers.items())
            places = {node_id: node.data_dir for node_id, node in brokers.items()}
            yield Trial(KWIRE, nodes, places, etcd, network)
            log = "".join(broker.log() for broker in brokers.values())
            assert "bug in" not in log, log[-5000:]


@contextmanager
def cabled_kafka(directory: Path) -> Iterator[Trial]:
    """Three Apache Kafkas with cables, each broker and controller; NotHere."""
    with Network() as network:
        cluster = KafkaCluster(directory, REPLICATED)
        for node_id, broker in cluster.brokers.items():
            broker.bootstrap = address(node_id, CLIENTS)
            broker.controller = address(node_id, CLUSTER, "controller")
            broker.prefix = network.prefix(node_id)
            listeners = f"PLAINTEXT://{broker.bootstrap},INTERNAL://{address(node_id, CLUSTER)}"
            broker.settings |= {
                "listeners": f"{listeners},CONTROLLER://{broker.controller}",
                "advertised.listeners": listeners,
                "inter.broker.listener.name": "INTERNAL",
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
                ),
            }
        with cluster:
            nodes: dict[int, Node] = dict(cluster.brokers.items())
            places = {node_id: node.log_dir for node_id, node in cluster.brokers.items()}
            yield Trial(KAFKA, nodes, places, None, network)
