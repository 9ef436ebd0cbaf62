"""What classic members tell of their partitions counts for topics that exist."""

from kwire.coordinator.consumer.embedded import parse_assignment, to_partitions
from kwire.coordinator.consumer.topics import Topic, TopicSet
from kwire.protocol.codec import encode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartition

ORDERS = Topic("orders", b"o" * 16, 3)
TOLD = [
    TopicPartition(topic="orders", partitions=[0]),
    TopicPartition(topic="deleted", partitions=[1]),
    TopicPartition(topic="orders", partitions=[2, 0]),
    TopicPartition(topic="deleted", partitions=[]),
]


def test_partitions_of_a_deleted_topic_are_left_out() -> None:
    """Members learn of a deletion later than their group; those of one topic are put together."""
    wanted = {ORDERS.topic_id: frozenset({0, 2})}
    topics = TopicSet([ORDERS])
    assert to_partitions(TOLD, topics) == wanted
    packed = bytes(2) + encode(ConsumerProtocolAssignment(assigned_partitions=TOLD), 0)
    assert parse_assignment(packed, topics) == wanted


def test_a_topic_without_partitions_is_left_out() -> None:
    """It would be told as owned."""
    none = [TopicPartition(topic="orders", partitions=[])]
    assert to_partitions(none, TopicSet([ORDERS])) == {}
