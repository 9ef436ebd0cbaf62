"""Topics with three replicas on one broker, whose followers the test plays."""

from kwire.broker.broker import Broker
from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.metadata.changes import Change, PartitionsChanged, TopicCreated
from kwire.metadata.controller import NewTopic, create_topic
from kwire.metadata.image import MetadataImage

FOLLOWERS = (8, 9)


async def create_replicated(broker: Broker, name: str, partitions: int = 1) -> None:
    """Create a topic that this broker leads, with two followers in sync."""

    def decide(image: MetadataImage) -> list[Change]:
        changes = create_topic(image, NewTopic(name, partitions, 1), broker.random)
        return [_with_followers(one) for one in changes]

    await broker.commit(decide)


def _with_followers(change: Change) -> Change:
    if not isinstance(change, TopicCreated):
        return change
    rows = tuple(
        row._replace(replicas=(row.leader, *FOLLOWERS), isr=(row.leader, *FOLLOWERS))
        for row in change.topic.partitions
    )
    return TopicCreated(change.topic._replace(partitions=rows))


def led(broker: Broker, topic: str, index: int = 0) -> LeaderPartition:
    """A partition of such a topic."""
    partition = broker.partition(topic, index)
    assert isinstance(partition, LeaderPartition)
    return partition


def follow(partition: LeaderPartition) -> None:
    """Both followers have everything."""
    for node_id in FOLLOWERS:
        follower = partition.follower(node_id, names_epoch=True)
        partition.followed(follower, partition.log.log_end_offset, 0, 1)


async def move(broker: Broker, topic: str, leader: int, index: int = 0) -> None:
    """Begin a new epoch under this leader."""

    def decide(image: MetadataImage) -> list[Change]:
        found = image.topics_by_name[topic]
        row = found.partitions[index]
        changed = row._replace(
            leader=leader,
            leader_epoch=row.leader_epoch + 1,
            partition_epoch=row.partition_epoch + 1,
        )
        return [PartitionsChanged(found.topic_id, ((index, changed),))]

    await broker.commit(decide)
