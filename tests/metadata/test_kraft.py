"""The metadata that KRaft controllers keep: every record is read, and kwire's image comes out."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.metadata.acls import AclBinding
from kwire.metadata.changes import apply
from kwire.metadata.image import ConfigResourceType, MetadataImage, PartitionImage
from kwire.metadata.kraft.access_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kwire.metadata.kraft.cluster import KraftCluster, NotOneBroker
from kwire.metadata.kraft.cluster_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
)
from kwire.metadata.kraft.metadata_record import (
    CLASSES,
    frame_metadata_record,
    parse_metadata_record,
)
from kwire.metadata.kraft.topic_records import (
    ClearElrRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kwire.metadata.scram import ScramCredential
from kwire.protocol.wire import MalformedRequest

TOPIC = b"t" * 16
OTHER = b"o" * 16


def cluster_of(*records):
    """What these records come to, each written in the newest version and read again."""
    cluster = KraftCluster()
    for record in records:
        value = frame_metadata_record(record, type(record).VERSIONS[1])
        cluster.apply(parse_metadata_record(value))
    return cluster


def topic(replicas=(1,), isr=None, **fields):
    """A topic with one partition."""
    isr = replicas if isr is None else isr
    return (
        TopicRecord(name="orders", topic_id=TOPIC),
        PartitionRecord(
            partition_id=0,
            topic_id=TOPIC,
            replicas=list(replicas),
            isr=list(isr),
            leader=replicas[0],
            leader_epoch=3,
            partition_epoch=5,
            directories=[OTHER] * len(replicas),
            **fields,
        ),
    )


def image_of(cluster, node_id=1):
    """kwire's image of a cluster."""
    return apply(MetadataImage(), cluster.changes(node_id), 1)


@pytest.mark.parametrize("record_class", CLASSES.values(), ids=lambda c: c.__name__)
def test_every_record_in_every_version(record_class):
    """What is written in a version is read in that version, and the type has Kafka's name."""
    first, last = record_class.VERSIONS
    for version in range(first, last + 1):
        record = parse_metadata_record(frame_metadata_record(record_class(), version))
        assert record == (record_class(), version)
        assert record.type_name.endswith("_RECORD")


@given(st.binary(max_size=40))
def test_anything_else_is_malformed(value):
    """Bytes that are no record never raise anything but MalformedRequest."""
    for data in (value, b"\x01" + value, b"\x01\x03\x02" + value):
        with contextlib.suppress(MalformedRequest):
            parse_metadata_record(data)


def test_a_record_of_a_newer_kafka():
    """Unknown types and versions are named."""
    with pytest.raises(MalformedRequest, match="unknown type 99"):
        parse_metadata_record(bytes([1, 99, 0]))
    with pytest.raises(MalformedRequest, match="TopicRecord has no version 7"):
        parse_metadata_record(bytes([1, 2, 7]))
    with pytest.raises(MalformedRequest, match="1 bytes follow a NoOpRecord"):
        parse_metadata_record(frame_metadata_record(NoOpRecord(), 0) + b"\0")


def test_topics_configs_and_producer_ids_come_over():
    """Under their ids, in a new leader epoch, with what is set and without what was unset."""
    change = PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=-1, isr=[])
    cluster = cluster_of(
        *(
            *topic(),
            ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="5"),
            ConfigRecord(resource_type=2, resource_name="orders", name="segment.ms", value="6"),
            ConfigRecord(resource_type=2, resource_name="orders", name="segment.ms", value=None),
            ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="7"),
            ProducerIdsRecord(broker_id=1, next_producer_id=2000),
            change,
        )
    )
    image = image_of(cluster)
    partition = image.topics_by_id[TOPIC].partitions[0]
    assert partition == PartitionImage(1, 5, (1,), (1,), 7)
    assert image.config(ConfigResourceType.TOPIC, "orders") == {"retention.ms": "5"}
    assert image.config(ConfigResourceType.BROKER, "") == {"log.retention.ms": "7"}
    assert cluster.next_producer_id == 2000


def test_a_removed_topic_takes_its_configs_along():
    """And may have come back under another id."""
    setting = ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="5")
    again = TopicRecord(name="orders", topic_id=OTHER)
    image = image_of(cluster_of(*topic(), setting, RemoveTopicRecord(topic_id=TOPIC), again))
    assert image.topics_by_name["orders"].topic_id == OTHER
    assert not image.config(ConfigResourceType.TOPIC, "orders")


@pytest.mark.parametrize("record_class", [BeginTransactionRecord, AbortTransactionRecord])
def test_the_text_of_a_transaction_may_be_null(record_class):
    """It is left out then, or written as null."""
    written = frame_metadata_record(record_class(), 0)
    assert written.endswith(b"\0")
    null = written[:-1] + b"\1\0\1\0"  # a tagged field of one byte
    assert parse_metadata_record(null).fields == record_class()


def test_transactions_of_metadata():
    """Only what is ended counts."""
    begin, end, abort = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()
    level = FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert cluster_of(begin, level, end).features == {"metadata.version": 30}
    assert cluster_of(begin, level, abort).features == {}
    assert cluster_of(begin, level).features == {}


def test_a_feature_that_was_never_turned_on_stays_off():
    """Whatever a new cluster of kwire has."""
    image = image_of(cluster_of(FeatureLevelRecord(name="group.version", feature_level=1)))
    assert image.feature_level("group.version") == 1
    assert image.feature_level("transaction.version") == 0


def test_only_a_replica_that_has_everything_is_taken_over():
    """In sync, an eligible leader, or the only one; else the partition is named."""
    eligible = PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC, isr=[], leader=-1, eligible_leader_replicas=[1]
    )
    assert image_of(cluster_of(*topic((2, 1)))).partition("orders", 0).replicas == (1,)
    assert image_of(cluster_of(*topic((2, 1)), eligible)).partition("orders", 0).leader == 1
    assert image_of(cluster_of(*topic((1,), isr=()))).partition("orders", 0).isr == (1,)
    with pytest.raises(NotOneBroker, match="orders-0 has no replica on node 3"):
        cluster_of(*topic((2, 1))).changes(3)
    with pytest.raises(NotOneBroker, match="node 1 is not in sync for orders-0"):
        cluster_of(*topic((2, 1), isr=(2,))).changes(1)
    cleared = cluster_of(*topic((2, 1)), eligible, ClearElrRecord(topic_name="orders"))
    with pytest.raises(NotOneBroker, match="not in sync"):
        cleared.changes(1)


def test_what_has_no_place_is_counted():
    """Nobody should think that tokens were taken over."""
    token = DelegationTokenRecord(token_id="x")
    assert cluster_of(token, token).not_taken_over == {"delegation tokens": 2}


def test_credentials_are_taken_over():
    """A user's password stays what it was; those that were deleted are gone."""

    def user(name, salt):
        parts = {"salt": salt, "stored_key": b"k" * 64, "server_key": b"s" * 64}
        return UserScramCredentialRecord(name=name, mechanism=2, iterations=8192, **parts)

    gone = RemoveUserScramCredentialRecord(name="bob", mechanism=2)
    cluster = cluster_of(user("alice", b"old"), user("bob", b"x"), user("alice", b"new"), gone)
    wanted = ScramCredential(b"new", b"k" * 64, b"s" * 64, 8192)
    assert image_of(cluster).scram_credentials == {("SCRAM-SHA-512", "alice"): wanted}
    assert not cluster.not_taken_over


def test_quotas_are_taken_over():
    """Of users, clients and defaults; the last value counts, and what was removed is gone."""

    def quota(value, key="producer_byte_rate", *, remove=False, **names):
        entity = [EntityData(entity_type=k.replace("_", "-"), entity_name=names[k]) for k in names]
        return ClientQuotaRecord(entity=entity, key=key, value=value, remove=remove)

    cluster = cluster_of(
        quota(1.0, user="alice", client_id=None),
        quota(2.0, client_id=None, user="alice"),
        quota(50.0, "request_percentage", user=None),
        quota(3.0, "connection_creation_rate", ip="10.0.0.7"),
        quota(0.0, "connection_creation_rate", remove=True, ip="10.0.0.7"),
    )
    assert image_of(cluster).client_quotas == {
        (("client-id", None), ("user", "alice")): {"producer_byte_rate": 2.0},
        (("user", None),): {"request_percentage": 50.0},
    }


def test_acls_are_taken_over():
    """Those that were deleted are not."""

    def acl(number, name):
        return AccessControlEntryRecord(
            id=bytes([number]) * 16,
            resource_type=2,
            resource_name=name,
            pattern_type=4,
            principal="User:x",
            host="*",
            operation=3,
            permission_type=2,
        )

    gone = RemoveAccessControlEntryRecord(id=bytes([1]) * 16)
    cluster = cluster_of(acl(1, "a"), acl(2, "b"), gone, acl(3, "c"))
    wanted = [AclBinding(2, name, 4, "User:x", "*", 3, 2) for name in ("b", "c")]
    assert list(image_of(cluster).acls) == wanted
