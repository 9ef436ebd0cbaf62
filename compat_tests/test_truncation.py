"""A consumer whose records are lost by an unclean election notices it (KIP-320).

The case is that of truncation_test, a system test of Apache Kafka.
"""

from contextlib import suppress

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests import own_cluster
from compat_tests.clients import QUIET, READ_TIMEOUT_S, produce_confluent
from compat_tests.conftest import Names
from compat_tests.three_brokers import Cluster
from compat_tests.verifiable import Consuming
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

PATIENCE_S = 90
COUNT = 100

bootstrap = own_cluster.bootstrap
cluster = own_cluster.cluster
names = own_cluster.names


def _row(bootstrap: str, topic: str) -> tuple[int, list[int], list[int]]:
    """Leader, replicas and ISR of the only partition."""
    client = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    one = client.list_topics(topic, timeout=READ_TIMEOUT_S).topics[topic].partitions[0]
    return one.leader, sorted(one.replicas), sorted(one.isrs)


def _write(bootstrap: str, topic: str, first: int) -> set[int]:
    """Write some numbers."""
    numbers = range(first, first + COUNT)
    produce_confluent(bootstrap, topic, [(b"", b"%d" % number, []) for number in numbers])
    return set(numbers)


def _elected(bootstrap: str, topic: str, node: int) -> bool:
    """Ask for an unclean election; whether this broker leads."""
    client = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    with suppress(KafkaException):  # the broker isn't there yet
        client.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(topic, 0)]).result(30)
    return _row(bootstrap, topic)[0] == node


def test_a_consumer_goes_on_where_the_logs_part(cluster: Cluster, names: Names) -> None:
    """It reads nothing again from the beginning, and misses nothing of the new leader's."""
    where, topic = cluster.bootstrap, names.topic("truncated")
    create_topics(where, topic, replicas=2, min_insync_replicas=1)
    wait_until(lambda: len(_row(where, topic)[2]) == 2, timeout_s=PATIENCE_S, what="two in sync")
    leader, replicas, _ = _row(where, topic)
    [follower] = set(replicas) - {leader}

    def wait_for(wanted: set[int]) -> None:
        wait_until(
            lambda: wanted <= set(consuming.values), timeout_s=PATIENCE_S, what="the records"
        )

    with Consuming(where, topic, names.group()) as consuming:
        kept = _write(where, topic, 0)
        wait_for(kept)
        cluster.brokers[follower].stop()
        wait_until(
            lambda: _row(where, topic)[2] == [leader], timeout_s=PATIENCE_S, what="one in sync"
        )
        wait_for(_write(where, topic, COUNT))  # which are lost
        cluster.brokers[leader].kill()
        cluster.brokers[follower].restart()
        wait_until(
            lambda: _elected(where, topic, follower), timeout_s=PATIENCE_S, what="an election"
        )
        wait_for(_write(where, topic, 2 * COUNT))
        cluster.brokers[leader].restart()
        wait_for(_write(where, topic, 3 * COUNT))
        values = consuming.values
    assert [number for number in values if number in kept] == sorted(kept)
    assert [number for number in values if number >= 2 * COUNT] == [*range(2 * COUNT, 4 * COUNT)]
