"""The scenarios: what is done to a cluster under load, and what it costs its clients.

Rules:

- Idempotent producers, one for each of six partitions, write all the time with ``acks=all``. A
  consumer reads what they write, as the member of a group.
- A pause is the longest time without an answer for one partition, from the fault to the first
  answer after it. It is measured, never judged; what is lost or doubled is counted at the end.
- Before the next fault every replica is in sync again.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.cluster.kills import LOYAL, TOPIC, Load, create_topic
from bench.reliability.clusters import Trial
from bench.reliability.reading import Reading
from bench.reliability.unclean import by_an_operator, by_setting

PARTITIONS = 6
IN_FLIGHT_S = 0.05
"""Answers that a dead broker has given may reach the producer's application so much later."""
FROZEN_S = 30.0
CALM_S = 5.0
APART_S = 1.0
LATENCY = "99th percentile of an acknowledgement"
OUTAGE_S = 60.0
CLIENT = {"socket.timeout.ms": 1000, **LOYAL}
"""A frozen broker's connections stay: a client can only wait for its own time-out.

A producer of one partition has one connection. By default librdkafka 2.16 forgets all brokers when
its last connection breaks, and asks its bootstrap addresses a second or two later.
"""
READER = {"socket.timeout.ms": 1500}
"""The same for a consumer, whose fetches wait for records within this time."""


class Seen(NamedTuple):
    """One figure of one trial, in seconds."""

    scenario: str
    what: str
    seconds: float


class Scenarios:
    """All scenarios on one cluster; each yields what it has seen."""

    def __init__(self, trial: Trial, times: int) -> None:
        self.trial = trial
        self.times = times
        self._load: Load | None = None
        self._reading: Reading | None = None
        self._groups = 0
        self._topics = 0

    @property
    def load(self) -> Load:
        """The producers of the scenario that runs."""
        assert self._load is not None
        return self._load

    def new_reading(self) -> Reading:
        """A consumer for the next scenario, which reads what is written from now on."""
        self._groups += 1
        group = f"reading-{self._groups}"
        self._reading = Reading(self.trial.bootstrap, PARTITIONS, group, **READER)
        return self._reading

    def new_load(self) -> Load:
        """Producers for the next scenario, which write behind those of the one before."""
        self._load = Load(self.trial.bootstrap, PARTITIONS, after=self._load, **CLIENT)
        return self._load

    @classmethod
    def by_name(cls) -> dict[str, Callable[["Scenarios"], Iterator[Seen]]]:
        """The scenarios in the order of their names."""
        return {
            "P1": cls.leader_killed,
            "P2": cls.leader_frozen,
            "P3": cls.controller_killed,
            "P4": cls.controller_restarted,
            "P5": cls.rolling_restart,
            "P6": cls.rolling_kill,
            "P7": cls.unclean,
            "P11": cls.etcd_out_of_reach,
            "P12": cls.wiped_disk,
        }

    def led_by(self, node_id: int) -> list[int]:
        """The partitions that a broker leads."""
        rows = self.trial.rows(TOPIC)
        return [index for index, row in enumerate(rows) if row.leader == node_id]

    def busiest(self) -> int:
        """The broker that leads the most partitions."""
        return Counter(row.leader for row in self.trial.rows(TOPIC)).most_common(1)[0][0]

    def pause(self, scenario: str, what: str, partitions: list[int], began_s: float) -> Seen:
        """The longest pause of some partitions since then."""
        return Seen(scenario, what, self.load.pause(what, partitions, began_s).value)

    def read_pause(
        self, scenario: str, what: str, partitions: list[int], began_s: float, fault_s: float
    ) -> Seen:
        """The longest time for which a consumer got nothing of some partitions since then.

        It is over when records have come that are newer than the fault.
        """
        assert self._reading is not None
        self._reading.wait(partitions, fault_s + IN_FLIGHT_S)
        return Seen(scenario, what, self._reading.pause(partitions, began_s))

    def whole(self) -> float:
        """Wait until all replicas are in sync; the seconds that it took."""
        return self.trial.wait_in_sync(TOPIC)

    def leader_killed(self) -> Iterator[Seen]:
        """P1: SIGKILL of a leader. T13: the latency of records outside the second of the fault."""
        calm_s = time.monotonic()
        time.sleep(CALM_S)
        yield Seen("P1", f"{LATENCY} before", self.load.latency(0.99, calm_s, (), APART_S))
        calm_s = time.monotonic()
        faults_s = []
        for _ in range(self.times):
            victim = self.busiest()
            own = self.led_by(victim)
            began_s = time.monotonic()
            dead_s = self.trial.kill(victim)
            faults_s.append(began_s)
            self.load.wait(own, dead_s + IN_FLIGHT_S)
            yield self.pause("P1", "pause of the leader's partitions", own, began_s)
            what = "the same for a consumer"
            yield self.read_pause("P1", what, own, began_s, dead_s)
            self.trial.start(victim)
            self.whole()
            time.sleep(APART_S)
        latency_s = self.load.latency(0.99, calm_s, faults_s, APART_S)
        yield Seen("P1", f"{LATENCY} outside of the second after each kill", latency_s)

    def leader_frozen(self) -> Iterator[Seen]:
        """P2: SIGSTOP of a leader, and SIGCONT half a minute later."""
        victim = self.busiest()
        own = self.led_by(victim)
        began_s = time.monotonic()
        self.trial.freeze(victim)
        try:
            self.load.wait(own, began_s + IN_FLIGHT_S)
            yield self.pause("P2", "pause of the frozen leader's partitions", own, began_s)
            time.sleep(max(0.0, began_s + FROZEN_S - time.monotonic()))
        finally:
            self.trial.thaw(victim)
        began_s = time.monotonic()
        self.whole()
        yield Seen("P2", "until it is in sync after SIGCONT", time.monotonic() - began_s)

    def controller_killed(self) -> Iterator[Seen]:
        """P3: SIGKILL of the controller."""
        victim = self.trial.controller()
        own = self.led_by(victim)
        rest = [index for index in range(PARTITIONS) if index not in own]
        began_s = time.monotonic()
        dead_s = self.trial.kill(victim)
        yield self._created("P3")
        self.load.wait([*own, *rest], dead_s + IN_FLIGHT_S)
        if own:
            yield self.pause("P3", "pause of the controller's partitions", own, began_s)
        if rest:
            yield self.pause("P3", "pause of other brokers' partitions", rest, began_s)
        self.trial.start(victim)
        self.whole()

    def _created(self, scenario: str) -> Seen:
        self._topics += 1
        up = [
            node.bootstrap for one, node in self.trial.nodes.items() if one not in self.trial.down
        ]
        took_s = create_topic(",".join(up), f"more-{scenario.lower()}-{self._topics}", replicas=2)
        return Seen(scenario, "until a topic is created", took_s)

    def controller_restarted(self) -> Iterator[Seen]:
        """P4: the controller is stopped in order, and started."""
        yield from self._restarted("P4", self.trial.controller())

    def rolling_restart(self) -> Iterator[Seen]:
        """P5: each broker is stopped in order and started, when all replicas are in sync."""
        began_s = time.monotonic()
        for node_id in self.trial.nodes:
            yield from self._restarted("P5", node_id)
        yield Seen("P5", "the whole round", time.monotonic() - began_s)

    def _restarted(self, scenario: str, node_id: int) -> Iterator[Seen]:
        everything = list(range(PARTITIONS))
        began_s = time.monotonic()
        self.trial.stop(node_id)
        self.trial.start(node_id)
        self.whole()
        self.load.wait(everything)
        back_s = time.monotonic()
        yield self.pause(scenario, "longest pause of any partition", everything, began_s)
        what = "the same for a consumer"
        yield self.read_pause(scenario, what, everything, began_s, back_s)

    def rolling_kill(self) -> Iterator[Seen]:
        """P6: SIGKILL of each broker, and its start."""
        everything = list(range(PARTITIONS))
        for node_id in self.trial.nodes:
            began_s = time.monotonic()
            self.trial.kill(node_id)
            started_s = time.monotonic()
            self.trial.start(node_id)
            self.whole()
            yield Seen("P6", "from its start until it is in sync", time.monotonic() - started_s)
            self.load.wait(everything)
            yield self.pause("P6", "longest pause of any partition", everything, began_s)
            what = "the same for a consumer"
            yield self.read_pause("P6", what, everything, began_s, started_s)

    def unclean(self) -> Iterator[Seen]:
        """P7: only a replica that lacks records is up."""
        yield Seen("P7", "from the operator's command until it leads", by_an_operator(self.trial))
        self.whole()
        yield Seen("P7", "from its start until it leads by the setting", by_setting(self.trial))
        self.whole()

    def etcd_out_of_reach(self) -> Iterator[Seen]:
        """P11: the leader of etcd is killed; later no etcd answers for a minute."""
        if self.trial.etcd is None:
            return
        everything = list(range(PARTITIONS))
        began_s = time.monotonic()
        leader = self.trial.etcd.leader
        leader.kill()
        yield self._created("P11")
        self.load.wait(everything)
        yield self.pause("P11", "pause when etcd's leader is killed", everything, began_s)
        leader.start()
        leader.wait_ready()
        began_s = time.monotonic()
        members = self.trial.etcd.members
        for member in members:
            member.kill()
        self.load.wait(everything, began_s + OUTAGE_S)
        yield self.pause("P11", "longest pause while etcd is stopped 60 s", everything, began_s)
        for member in members:
            member.start()
        for member in members:
            member.wait_ready()
        yield self._created("P11")
        self.whole()

    def wiped_disk(self) -> Iterator[Seen]:
        """P12: a broker comes back with an empty directory, and copies everything."""
        node_id = max(self.trial.nodes)
        self.trial.kill(node_id)
        keep = ("server.properties", "kafka.log")
        directory = self.trial.directories[node_id]
        for path in directory.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in keep:
                path.unlink()
        self._prepare_wiped(node_id)
        began_s = time.monotonic()
        self.trial.start(node_id)
        self.whole()
        yield Seen("P12", "from its start until it is in sync", time.monotonic() - began_s)

    def _prepare_wiped(self, node_id: int) -> None:
        """Apache Kafka formats an empty directory itself only if it is gone."""
        directory = self.trial.directories[node_id]
        if self.trial.etcd is None:
            directory.rmdir()
