"""A simulated cluster: three brokers in one event loop, in virtual time, all from one seed.

Rules:

- Everything that depends on chance takes it from the seed: the order of tasks, latency, faults and
  workloads. Sets are in the order of their hashes, which PYTHONHASHSEED decides. So both together
  repeat a run exactly. Time passes only when all tasks wait.
- Work for threads is done in the event loop: at once, or a little later, or its result is late. So
  what other tasks do meanwhile is a part of the run.
- ``Checks`` looks at every step: each commit, and each image that a broker takes.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from random import Random
from shutil import rmtree
from types import MappingProxyType
from typing import Any

import trio

from kwire.client.cluster import Cluster
from kwire.client.settings import ClientSettings
from kwire.clock import Clock
from kwire.config.broker import BrokerConfig
from kwire.housekeeping import StorageLost
from kwire.server import StartError
from tests.simulation.checks import WatchedEtcd
from tests.simulation.faults import Faults
from tests.simulation.network import Network
from tests.simulation.replicas import ReplicaChecks
from tests.simulation.serving import SimulatedServer, server_of
from tests.simulation.sockets import Sockets
from tests.simulation.virtual_time import pass_s
from tests.support.machine import Died, Machine, MachineDisk

NODES = (1, 2, 3)
HOUR_MS = 3_600_000
DATE_MS = 1_800_000_000_000
SESSION_MS = 6000
KEEP_MS = 1000
RESTART_S = 1.0
"""So long whoever looks after a broker waits before it starts one again that couldn't start."""

SETTINGS = {
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": str(KEEP_MS),
    "num.partitions": "6",
    "log.index.size.max.bytes": "4096",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "default.replication.factor": "1",
}
REPLICATED = {
    "kwire.metadata.store": "etcd://simulated:2379/kwire",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "replica.lag.time.max.ms": "10000",
}
"""What changes when each partition has three replicas."""

NO_SETTINGS: Mapping[str, str] = MappingProxyType({})

STORE_DELAY_S = 0.002
"""So long a message of the store takes at the most, without faults."""

IN_SYNC_S = 30.0
"""So long after all faults are over, every replica is in sync again."""

CLIENT = ClientSettings(connect_timeout_s=2.0, request_timeout_s=5.0, give_up_s=5.0)


class TooLate(AssertionError):
    """Something that has to become true hasn't; the second argument says what."""

    def __str__(self) -> str:
        return str(self.args[0])


class _Started:
    """The task status that a server is given; a process that was killed meanwhile isn't ready."""

    def __init__(self, node: "Node", server: SimulatedServer) -> None:
        self._node = node
        self._server = server

    def started(self, value: object = None) -> None:
        """The server is ready."""
        if self._node.server is self._server:
            self._node.is_ready = True


class Node:
    """One broker's machine, and the process that runs on it now, if any."""

    def __init__(self, world: "World", node_id: int) -> None:
        self.node_id = node_id
        self.is_ready = False
        self.server: SimulatedServer | None = None
        self.drift = 1.0
        self.jump_ms = 0
        self._world = world
        self._root = world.root / f"broker-{node_id}"
        self._root.mkdir()
        self.data = self._root / "data"
        self._machine = Machine(self._root)
        self._scope = trio.CancelScope()
        self._life = 0
        self.is_wanted = False
        self.gateway = world.etcd.gateway()
        self._random = Random(f"{world.seed} node {node_id}")

    @property
    def disk(self) -> MachineDisk:
        """The disk of the process that runs now."""
        return self._machine.disk

    @property
    def broker(self) -> Any:
        """The broker, while it is ready."""
        return self.server.broker if self.server is not None and self.is_ready else None

    def start(self) -> None:
        """Start the process, and again while it can't start; one that stops ends before that.

        Nothing happens if it runs, because its end was left out.
        """
        if self.is_wanted:
            return
        is_stopping = self.server is not None and not self.is_wanted
        self.is_wanted = True
        if is_stopping:
            return
        self._life += 1
        self.gateway = self._world.etcd.gateway()
        self._world.nursery.start_soon(self._live, self._life)

    async def _live(self, life: int) -> None:
        while self.is_wanted and self._life == life:
            with trio.CancelScope() as self._scope:
                await self._run()
            if self._life != life:
                return
            self.server, self.is_ready = None, False
            await pass_s(RESTART_S)

    async def _run(self) -> None:
        world = self._world
        clock = Clock(self._now_ms, self._steady_ms)
        config = world.config(self.node_id, self.data)
        random = Random(self._random.getrandbits(32))
        self.server = server = server_of(self.node_id)(
            config, clock, self._machine.disk, random, self.gateway, world.network
        )
        server.sockets = world.sockets
        server.began = world.checks.follow
        try:
            await server.serve(_Started(self, server))  # type: ignore[arg-type]
        except* Died:
            pass
        except* StorageLost as group:
            world.note(f"broker {self.node_id} stops: {group.exceptions[0]}")
        except* StartError as group:
            world.note(f"broker {self.node_id} can't start: {group.exceptions[0]}")
        finally:
            world.network.close_listeners(server)

    def _now_ms(self) -> int:
        return DATE_MS + self.jump_ms + self._steady_ms()

    def _steady_ms(self) -> int:
        return int(trio.current_time() * 1000 * self.drift)

    def kill(self) -> None:
        """End the process at once; its files stay."""
        if self._world.happens(f"kill {self.node_id}"):
            self._end()

    def _end(self) -> None:
        self.is_wanted = False
        self._life += 1
        self.gateway.is_cut = True
        self.server, self.is_ready = None, False
        self._machine.kill()
        self._world.network.end_process(self.node_id)
        self._scope.cancel()

    def lose_power(self) -> None:
        """End the machine: files keep what was synced, and any part of the rest."""
        if self._world.happens(f"power of {self.node_id}"):
            self._end()
            self._machine.lose_power(self._random)

    def wipe(self) -> None:
        """Remove all files of a dead process: its disk was replaced."""
        if self._world.happens(f"wipe {self.node_id}") and not self.is_wanted:
            rmtree(self.data, ignore_errors=True)
            self._machine = Machine(self._root)

    def stop(self) -> None:
        """Stop the process as SIGTERM does."""
        if not self._world.happens(f"stop {self.node_id}"):
            return
        self.is_wanted = False
        if self.server is not None and self.is_ready:
            self.server.stop()
        else:
            self._end()

    def close(self) -> None:
        """Close the files of the process."""
        self._machine.kill()

    @property
    def is_down(self) -> bool:
        """Whether no process runs."""
        return not self.is_wanted and self.server is None

    def freeze(self) -> bool:
        """Keep everything that it sends or is sent on its way, as SIGSTOP does; unless left out."""
        is_frozen = self._world.happens(f"freeze {self.node_id}")
        if is_frozen:
            self.gateway.hold()
            self._world.network.pause(self.node_id)
        return is_frozen

    def leave_the_store(self) -> None:
        """Cut the process from the store."""
        if self._world.happens(f"{self.node_id} is cut from the store"):
            self.gateway.is_cut = True

    def silence_the_watch(self) -> None:
        """Let no change of the store reach the process through its watch."""
        if self._world.happens(f"the watch of {self.node_id} is silent"):
            self.gateway.silence()

    def drift_by(self, factor: float) -> None:
        """Let the clocks run this much faster."""
        if self._world.happens(f"the clock of {self.node_id} runs by {factor:.3f}"):
            self.drift = factor

    def jump_by(self, hours: int) -> None:
        """Set the date this much ahead, or back."""
        if self._world.happens(f"the date of {self.node_id} jumps by {hours} hours"):
            self.jump_ms = hours * HOUR_MS


class World:
    """The cluster of one run."""

    nursery: trio.Nursery

    def __init__(
        self,
        seed: int,
        root: Path,
        *,
        replicated: bool = False,
        settings: Mapping[str, str] = NO_SETTINGS,
        nodes: Sequence[int] = NODES,
        only: Collection[str] | None = None,
    ) -> None:
        self.seed = seed
        self.root = root
        self.replicated = replicated
        self._settings = {**SETTINGS, **(REPLICATED if replicated else {}), **settings}
        self.notes: list[str] = []
        self.faults = Faults(seed, self.note, only)
        self.random, self.rounds = self.faults.random, self.faults.rounds
        self.happens = self.faults.happens
        self.network = Network(Random(seed + 1), self.happens)
        self.sockets = Sockets()
        self.checks = ReplicaChecks()
        self.etcd = WatchedEtcd(Random(seed + 2), self.checks)
        self.etcd.faults.delay_s = STORE_DELAY_S
        self.producer_ids: set[int] = set()
        self.nodes = {node_id: Node(self, node_id) for node_id in nodes}
        self.checks.nodes = self.nodes

    def config(self, node_id: int, directory: Path) -> BrokerConfig:
        """The settings of a broker."""
        own = {
            "node.id": str(node_id),
            "log.dirs": str(directory),
            "listeners": f"PLAINTEXT://broker-{node_id}:9092",
        }
        return BrokerConfig.load(self._settings | own)

    def note(self, what: str) -> str:
        """Note what happens, for the report of a failure; the note."""
        self.notes.append(f"{trio.current_time():9.3f} {what}")
        return self.notes[-1]

    def client(self, name: str, **settings: float) -> Cluster:
        """A client that knows all brokers."""
        bootstrap = [(f"broker-{node_id}", 9092) for node_id in self.nodes]
        random = Random(self.random.getrandbits(32))
        own = CLIENT._replace(**settings)  # type: ignore[arg-type]
        return Cluster(bootstrap, self.nursery, own, self.network.opener(name), random)

    def start_all(self) -> None:
        """Start every broker that doesn't run."""
        for node in self.nodes.values():
            if not node.is_wanted:
                node.start()

    async def until(self, is_so: Callable[[], object], within_s: float, what: str) -> None:
        """Wait in virtual time; AssertionError when it takes too long."""
        deadline_s = trio.current_time() + within_s
        while not is_so():
            if trio.current_time() >= deadline_s:
                raise TooLate(f"not within {within_s:g} s: {what}", what)
            await pass_s(0.02)

    async def all_ready(self, within_s: float = 30.0) -> None:
        """Wait until all brokers serve, are unfenced, and have the same image."""
        await self.until(self.is_whole, within_s, "all brokers serve with one image")

    def is_whole(self) -> bool:
        """Whether all brokers serve with one image, with a controller and all replicas in sync."""
        brokers = [node.broker for node in self.nodes.values()]
        if None in brokers:
            return False
        images = [broker.image for broker in brokers]
        newest = images[0]
        return (
            all(image.revision == newest.revision for image in images)
            and newest.controller_id in self.nodes
            and all(newest.is_active(node_id) for node_id in self.nodes)
            and all(
                partition.leader >= 0 and len(partition.isr) == len(partition.replicas)
                for topic in newest.topics_by_name.values()
                for partition in topic.partitions
            )
        )

    def heal(self) -> None:
        """End all faults, and start what is dead."""
        self.note("heal")
        faults = self.etcd.faults
        faults.lost_calls = faults.lost_answers = 0.0
        faults.is_down, faults.lease_factor = False, 1.0
        for node in self.nodes.values():
            node.gateway.release()
            node.gateway.is_cut = False
            node.jump_ms = 0
        self.network.heal()
        self.start_all()

    def close(self) -> None:
        """Close all brokers' files when the run is over: an error's frames keep these alive."""
        for node in self.nodes.values():
            node.close()
        self.sockets.close()
