"""P7: the only replica that is up lacks records; it leads when an operator asks for it.

Two replicas, of which one has to be in sync: Apache Kafka's controllers are on the same three
nodes, and two of them have to be up for an election.
"""

import time

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.cluster.kills import create_topic, new_reader
from bench.reliability.clusters import WAIT_S, Trial
from compat_tests.clients import QUIET
from compat_tests.crash_clients import Writer, read_all
from kwire.testing.waiting import wait_until

TOPIC = "unclean"
SETTING = "unclean.leader.election.enable"
RECORDS = 100
LEADERLESS_S = 3.0


def unclean_election(trial: Trial) -> float:
    """Seconds from the question to the new leader; AssertionError if more is lost than must be.

    Until it is asked for, the partition has to stay without a leader.
    """
    create_topic(trial.bootstrap, TOPIC, 1, 2, {"min.insync.replicas": "1", SETTING: "false"})
    trial.wait_in_sync(TOPIC)
    [row] = trial.rows(TOPIC)
    [follower] = set(row.replicas) - {row.leader}
    writer = Writer(trial.bootstrap, TOPIC, 0, exactly_once=True)
    writer.send(RECORDS, 10)
    writer.settle()
    trial.kill(follower)
    wait_until(lambda: trial.rows(TOPIC)[0].isr == (row.leader,), timeout_s=WAIT_S, what="the ISR")
    writer.send(RECORDS, 10)
    writer.settle()
    trial.kill(row.leader)
    trial.start(follower)
    wait_until(lambda: trial.rows(TOPIC)[0].leader == -1, timeout_s=WAIT_S, what="no leader")
    began_s = time.monotonic()
    while time.monotonic() - began_s < LEADERLESS_S:
        assert trial.rows(TOPIC)[0].leader == -1, "a replica leads that lacks records"
    began_s = time.monotonic()
    _elect(trial.nodes[follower].bootstrap)
    wait_until(
        lambda: trial.rows(TOPIC)[0].leader == follower, timeout_s=WAIT_S, what="an unclean leader"
    )
    took_s = time.monotonic() - began_s
    reader = new_reader(trial.nodes[follower].bootstrap)
    kept = len(read_all(reader, TOPIC, 0, 0))
    reader.close()
    assert kept == RECORDS, f"{kept} records are left, {RECORDS} were on the replica that leads"
    trial.start(row.leader)
    trial.wait_in_sync(TOPIC)
    return took_s


def _elect(bootstrap: str) -> None:
    """Ask for an unclean election, as ``kafka-leader-election.sh`` does."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(TOPIC, 0)]).result(WAIT_S)
