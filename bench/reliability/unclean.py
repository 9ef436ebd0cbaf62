"""P7: the only replica that is up lacks records; it leads when somebody has allowed it.

Without the setting the partition has no leader, as clients are told (LEADER_NOT_AVAILABLE), until
an operator asks for an election. With the setting the replica leads by itself.

Two replicas, of which one has to be in sync: Apache Kafka's controllers are on the same three
nodes, and two of them have to be up for an election.
"""

import time

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.cluster.kills import create_topic, new_reader
from bench.reliability.clusters import KWIRE, WAIT_S, Trial
from compat_tests.clients import QUIET
from compat_tests.crash_clients import Writer, read_all
from kwire.errors import ErrorCode
from kwire.testing.waiting import wait_until

SETTING = "unclean.leader.election.enable"
RECORDS = 100
LEADERLESS_S = 3.0
SAID = "led by a replica that may lack records"
"""What kwire logs of an unclean election."""


def by_an_operator(trial: Trial) -> float:
    """Seconds from the question to the new leader; AssertionError if more is lost than must be.

    Until it is asked for, the partition has to stay without a leader.
    """
    topic = "unclean-by-operator"
    former, stale = _only_a_stale_replica(trial, topic, is_allowed=False)
    trial.start(stale)
    wait_until(lambda: trial.rows(topic)[0].leader == -1, timeout_s=WAIT_S, what="no leader")
    began_s = time.monotonic()
    while time.monotonic() - began_s < LEADERLESS_S:
        [row] = trial.rows(topic)
        assert row.leader == -1, "a replica leads that lacks records"
        assert row.error_code == ErrorCode.LEADER_NOT_AVAILABLE, row
    began_s = time.monotonic()
    _elect(trial.nodes[stale].bootstrap, topic)
    return _leads(trial, topic, former, stale, began_s)


def by_setting(trial: Trial) -> float:
    """Seconds from the start of the replica that lacks records until it leads; AssertionError."""
    topic = "unclean-by-setting"
    former, stale = _only_a_stale_replica(trial, topic, is_allowed=True)
    began_s = time.monotonic()
    trial.start(stale)
    return _leads(trial, topic, former, stale, began_s)


def _only_a_stale_replica(trial: Trial, topic: str, *, is_allowed: bool) -> tuple[int, int]:
    """The former leader, and the replica that lacks records; the brokers of both are down."""
    configs = {"min.insync.replicas": "1", SETTING: str(is_allowed).lower()}
    create_topic(trial.bootstrap, topic, 1, 2, configs)
    trial.wait_in_sync(topic)
    [row] = trial.rows(topic)
    [follower] = set(row.replicas) - {row.leader}
    writer = Writer(trial.bootstrap, topic, 0, exactly_once=True)
    writer.send(RECORDS, 10)
    writer.settle()
    trial.kill(follower)
    wait_until(lambda: trial.rows(topic)[0].isr == (row.leader,), timeout_s=WAIT_S, what="the ISR")
    writer.send(RECORDS, 10)
    writer.settle()
    trial.kill(row.leader)
    return row.leader, follower


def _leads(trial: Trial, topic: str, former: int, stale: int, began_s: float) -> float:
    """Seconds until the stale replica leads; what it lacks is lost, and nothing else."""
    wait_until(
        lambda: trial.rows(topic)[0].leader == stale, timeout_s=WAIT_S, what="an unclean leader"
    )
    took_s = time.monotonic() - began_s
    reader = new_reader(trial.nodes[stale].bootstrap)
    kept = len(read_all(reader, topic, 0, 0))
    reader.close()
    assert kept == RECORDS, f"{kept} records are left, {RECORDS} were on the replica that leads"
    if trial.name == KWIRE:
        said = [line for line in trial.nodes[stale].log().splitlines() if SAID in line]
        wanted = f"{topic}-0 is {SAID} (unclean election): records from offset {RECORDS} on"
        assert any(wanted in line for line in said), said
    trial.start(former)
    trial.wait_in_sync(topic)
    return took_s


def _elect(bootstrap: str, topic: str) -> None:
    """Ask for an unclean election, as ``kafka-leader-election.sh`` does."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(topic, 0)]).result(WAIT_S)
