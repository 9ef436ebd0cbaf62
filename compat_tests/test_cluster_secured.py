"""Three kwires that log in to each other, with an authorizer: what brokers may, and nobody else.

``make compat-cluster`` runs it, on a cluster of its own.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from compat_tests.authorization_cases import codes
from compat_tests.cluster import KwireCluster
from compat_tests.conftest import NODES
from compat_tests.raw_client import RawConnection
from compat_tests.test_delegation_tokens import User
from kwire.errors import ErrorCode
from kwire.metadata.acls import AclOperation, PatternType, Permission, ResourceType
from kwire.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.protocol.messages.describe_acls import DescribeAclsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.testing.waiting import wait_until
from tests.support.etcd import MISSING, find_etcd
from tests.support.ports import free_port
from tests.support.topics import create_topics

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = ("broker", "admin", "alice")
SETTINGS = {
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} username="broker" '
    'password="secret-of-broker" '
    + " ".join(f'user_{name}="secret-of-{name}"' for name in USERS)
    + ";",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:broker;User:admin",
    "delegation.token.secret.key": "the-secret-key",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
}
PARTITIONS, TOPIC, LEDGER, GROUP = 6, "orders", "ledger", "billing"


class Secured(NamedTuple):
    """A cluster, and the addresses at which clients log in."""

    cluster: KwireCluster
    addresses: list[str]

    def login(self, name: str) -> dict[str, Any]:
        """The settings of librdkafka."""
        return {
            "bootstrap.servers": ",".join(self.addresses),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": name,
            "sasl.password": f"secret-of-{name}",
        }

    def user(self, name: str, node: int = 0) -> User:
        """A connection of a user to one broker."""
        return User(self.addresses[node]).login(name)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A topic with three replicas, which alice may write in transactions, and read."""
    if NODES < 3:
        pytest.skip("needs three brokers of its own: make compat-cluster")
    if find_etcd() is None:
        pytest.skip(MISSING)
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    listeners = {n: f"SASL_PLAINTEXT://{address}" for n, address in enumerate(addresses, 1)}
    directory = tmp_path_factory.mktemp("secured")
    with KwireCluster(directory, SETTINGS, listeners=listeners) as cluster:
        found = Secured(cluster, addresses)
        create_topics(found.login("admin"), TOPIC, partitions=PARTITIONS, replicas=3)
        _allow(found)
        yield found
        log = cluster.log()
    assert "bug in" not in log, log
    assert "secret-of-" not in log


def _allow(secured: Secured) -> None:
    """Give alice her rights, and wait: a broker that doesn't know of them yet refuses her."""
    topic, group, ledger = (
        ResourceType.TOPIC,
        ResourceType.GROUP,
        ResourceType.TRANSACTIONAL_ID,
    )
    rights = [
        (topic, TOPIC, AclOperation.WRITE),
        (topic, TOPIC, AclOperation.READ),
        (group, GROUP, AclOperation.READ),
        (ledger, LEDGER, AclOperation.WRITE),
    ]
    creations = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL,
            principal="User:alice",
            host="*",
            operation=operation,
            permission_type=Permission.ALLOW,
        )
        for kind, name, operation in rights
    ]
    answer = secured.user("admin").ask(CreateAclsRequest(creations=creations), 3)
    assert not any(codes(answer)), answer
    everything = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    for node in range(3):
        admin = secured.user("admin", node)
        wait_until(
            lambda admin=admin: (
                sum(len(r.acls) for r in admin.ask(everything, 3).resources) == len(rights)
            ),
            what="her rights on each broker",
        )


def _in_sync(secured: Secured) -> set[int]:
    """How many replicas each partition has in sync."""
    admin = AdminClient(secured.login("admin"))
    topic = admin.list_topics(TOPIC, timeout=30).topics[TOPIC]
    return {len(partition.isrs) for partition in topic.partitions.values()}


def test_a_transaction_over_all_brokers(secured: Secured) -> None:
    """Replication and the markers of a transaction need CLUSTER_ACTION, which brokers have."""
    producer = Producer({**secured.login("alice"), "transactional.id": LEDGER, "acks": "all"})
    producer.init_transactions(30)
    for is_committed in (False, True):
        producer.begin_transaction()
        for number in range(60):
            producer.produce(TOPIC, b"%d %d" % (is_committed, number), partition=number % 6)
        if is_committed:
            producer.commit_transaction(30)
        else:
            assert producer.flush(30) == 0
            producer.abort_transaction(30)
    consumer = Consumer(
        {
            **secured.login("alice"),
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([TOPIC])
    found: list[bytes] = []
    wait_until(
        lambda: found.extend(m.value() for m in consumer.consume(100, 1)) or len(found) >= 60,
        what="the committed records",
    )
    consumer.close()
    assert sorted(found) == sorted(b"1 %d" % number for number in range(60))
    wait_until(lambda: _in_sync(secured) == {3}, what="all replicas in sync")


def test_a_user_is_no_broker(secured: Secured) -> None:
    """Neither markers nor a replica's fetch from somebody who may read and write the topic."""
    alice = secured.user("alice")
    topic = WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])
    marker = WritableTxnMarker(producer_id=1, transaction_result=True, topics=[topic])
    marked = alice.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
    assert set(codes(marked)) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    partition = FetchPartition(fetch_offset=10_000, partition_max_bytes=1000)
    topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
    fetched = alice.ask(FetchRequest(replica_id=2, topics=topics), 12)
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in set(codes(fetched))
    assert _in_sync(secured) == {3}


def test_nobody_on_the_plain_listener_does_anything(secured: Secured) -> None:
    """Everybody is anonymous there."""
    connection = RawConnection(secured.cluster.bootstrap.split(",")[0])
    partition = FetchPartition(partition_max_bytes=1000)
    topics = [FetchTopic(topic=TOPIC, partitions=[partition])]
    answer = connection.ask(FetchRequest(topics=topics), 12)
    connection.close()
    assert set(codes(answer)) - {ErrorCode.NONE} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def test_a_token_counts_on_all_brokers(secured: Secured) -> None:
    """Made on one, used on another, ended on the third."""
    alice = secured.user("alice")
    token = alice.create()
    assert token.error_code == 0

    def error(node: int) -> int:
        answer = User(secured.addresses[node]).login_by_token(token.token_id, token.hmac)
        return int(answer.error_code)

    wait_until(lambda: error(1) == 0, what="the token on another broker")
    third = secured.user("alice", 2)
    wait_until(lambda: third.expire(token.hmac).error_code == 0, what="the token on the third")
    wait_until(lambda: error(0) != 0 and error(1) != 0, what="the end of the token")
