"""Parts of the cluster's metadata, for tests of decisions on it."""

from kwire.metadata.changes import TopicCreated
from kwire.metadata.image import PartitionImage, TopicImage


def topic_created(
    *partitions: PartitionImage, name: str = "t", topic_id: bytes = bytes(16)
) -> TopicCreated:
    """The change that creates a topic with these partitions."""
    return TopicCreated(TopicImage(name, topic_id, partitions, len(partitions)))
