"""What consumer groups see of the topics: looked up once, as long as it is true."""

from kwire.broker.group_surroundings import ImageTopics
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage

T_ID, U_ID = b"t" * 16, b"u" * 16


def _image(revision: int, rack: str | None, *topics: TopicImage) -> MetadataImage:
    return MetadataImage(
        cluster_id="c",
        revision=revision,
        brokers={1: BrokerImage(1, rack, ())},
        topics_by_name={topic.name: topic for topic in topics},
        topics_by_id={topic.topic_id: topic for topic in topics},
    )


def _topic(name: str, topic_id: bytes, partitions: int = 1) -> TopicImage:
    return TopicImage(name, topic_id, (PartitionImage(1, 0, (1,), (1,)),) * partitions)


def test_topics_that_stay_the_same_are_not_made_again() -> None:
    """Their racks and their part of the hash cost time, and every change is a new image."""
    t, u = _topic("t", T_ID), _topic("u", U_ID)
    first = ImageTopics(_image(1, "r", t, u))
    known = first.by_name("t"), first.by_name("u")
    second = ImageTopics(_image(2, "r", t, _topic("u", U_ID, 2)), first)
    assert second.by_name("t") is known[0]
    found = second.by_id(U_ID)
    assert found is not None
    assert found.partitions == 2
    third = ImageTopics(_image(3, "r", t), second)
    assert third.by_name("u") is third.by_id(U_ID) is None


def test_another_rack_changes_every_topic() -> None:
    """They say in which racks their partitions are."""
    t = _topic("t", T_ID)
    first = ImageTopics(_image(1, "r", t))
    before = first.by_name("t")
    after = ImageTopics(_image(2, "s", t), first).by_name("t")
    assert before is not None
    assert after is not None
    assert (before.racks, after.racks) == ((frozenset({"r"}),), (frozenset({"s"}),))
