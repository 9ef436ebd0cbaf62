"""P11: the leader of three etcds is killed, and all of them are stopped, under load.

Until a topic is created after the leader's death is also told apart: how long etcd took to elect
another leader, and how long kwire and the client took since.
"""

import time
from collections.abc import Iterator, Sequence
from threading import Thread

from bench.cluster.kills import TOPIC, ClusterTrial, new_reader
from bench.cluster.measure import Number, percentile
from compat_tests.crash_clients import read_all
from tests.support.etcd import EtcdMember

CREATED_S = 2.0
"""The bar until a topic is created."""

LOOK_EVERY_S = 0.005
REST_S = 1.0
"""Between two kills, for sessions to be kept alive."""


def leader_killed(trial: ClusterTrial, kills: int) -> Iterator[Number]:
    """The leader of the three etcds is killed, again and again; the other two go on."""
    everything = range(len(trial.led))
    created_s, elected_s, pauses_s = [], [], []
    for _ in range(kills):
        leader = trial.cluster.etcd.leader
        rest = [member for member in trial.cluster.etcd.members if member is not leader]
        election = _Election(rest, leader.term)
        began_s = time.monotonic()
        leader.kill()
        election.start()
        created_s.append(trial.create(trial.bootstrap))
        election.join()
        elected_s.append(election.ended_s - began_s)
        trial.load.wait(everything)
        pauses_s.append(trial.load.pause("pause", everything, began_s).value)
        leader.start()
        leader.wait_ready()
        time.sleep(REST_S)
    since_s = [c - e for c, e in zip(created_s, elected_s, strict=True)]
    name = f"P11 etcd's leader killed {kills} times"
    created = f"{name}: until a topic is created"
    yield Number(f"{name}: until etcd has another leader, p50", percentile(elected_s, 0.5), "s")
    yield Number(f"{name}: until etcd has another leader, longest", max(elected_s), "s")
    yield Number(f"{created}, p50", percentile(created_s, 0.5), "s")
    yield Number(f"{created}, longest", max(created_s), "s", CREATED_S)
    yield Number(f"{created}, longest since etcd has a leader", max(0, *since_s), "s")
    yield Number(f"{name}: pause, longest", max(pauses_s), "s")


class _Election(Thread):
    """Looks when one of these members has a leader of a newer term."""

    def __init__(self, members: Sequence[EtcdMember], term: int) -> None:
        super().__init__()
        self._members = members
        self._term = term
        self.ended_s = 0.0

    def run(self) -> None:
        while all(member.term <= self._term for member in self._members):
            time.sleep(LOOK_EVERY_S)
        self.ended_s = time.monotonic()


def stopped(trial: ClusterTrial, outage_s: float) -> Iterator[Number]:
    """No etcd for longer than sessions last; records are written and read meanwhile."""
    everything = range(len(trial.led))
    began_s = time.monotonic()
    members = trial.cluster.etcd.members
    for member in members:
        member.kill()
    trial.load.wait(everything, began_s + outage_s)
    reader = new_reader(trial.bootstrap)
    for index in everything:
        assert read_all(reader, TOPIC, index, 0)
    reader.close()
    what = f"P11 etcd stopped for {outage_s:.0f} s"
    yield trial.load.pause(f"{what}: pause", everything, began_s)
    for member in members:
        member.start()
    for member in members:
        member.wait_ready()
    created_s = trial.create(trial.bootstrap)
    yield Number(f"{what}: until a topic is created", created_s, "s", CREATED_S)
    trial.wait_until_led()
