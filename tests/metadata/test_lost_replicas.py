"""A broker that comes back without its records never leads an empty log silently."""

from kwire.metadata.changes import TopicCreated, apply
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from kwire.metadata.lost_replicas import OFFLINE, Replica, lost_partitions
from kwire.metadata.partition_change import active_brokers, elected
from kwire.metadata.registration import register, unfence


def _broker(*directories: str) -> BrokerImage:
    return BrokerImage(1, None, (), "a", directories=directories)


class Cluster:
    """Broker 1, whose disks have ``replica`` when it starts, and a topic of one partition."""

    def __init__(self, *directories: str) -> None:
        self.image = MetadataImage()
        self.start(None, *directories)
        partition = PartitionImage(1, 0, (1,), (1,))
        self.do([TopicCreated(TopicImage("t", bytes(16), (partition,), 1))])

    def do(self, changes):
        if changes:
            self.image = apply(self.image, changes, self.image.revision + 1)

    def register(self, replica, *directories):
        self.do(register(self.image, _broker(*directories), lambda *_: replica))

    def start(self, replica, *directories):
        self.register(replica, *directories)
        self.do(unfence(self.image, 1, "a"))

    @property
    def partition(self):
        return self.image.topics_by_name["t"].partitions[0]

    def accept_the_loss(self):
        row = elected(self.partition, active_brokers(self.image), unclean=True)
        topic = self.image.topics_by_name["t"]._replace(partitions=(row,))
        self.do([TopicCreated(topic)])


def test_a_replica_that_is_there_leads():
    cluster = Cluster("d1")
    cluster.start(Replica("d1", 0), "d1")
    assert (cluster.partition.leader, cluster.partition.isr) == (1, (1,))
    assert lost_partitions(cluster.image, 1) == []


def test_a_wiped_disk_leaves_the_partition_without_a_leader():
    """Also at the next start, until the records are there again."""
    cluster = Cluster("d1")
    for _ in range(2):
        cluster.start(None, "new")
        assert (cluster.partition.leader, cluster.partition.isr) == (-1, ())
        assert lost_partitions(cluster.image, 1) == ["t-0"]
    cluster.start(Replica("d1", 0), "d1")
    assert (cluster.partition.leader, cluster.partition.isr) == (1, (1,))


def test_a_log_that_vanished_from_a_directory_is_lost():
    """The directory is the same, and the broker had made the log before it led again."""
    cluster = Cluster("d1")
    cluster.start(Replica("d1", 0), "d1")
    cluster.start(None, "d1")
    assert cluster.partition.leader == -1
    assert lost_partitions(cluster.image, 1) == ["t-0"]


def test_a_partition_whose_first_leader_died_at_once_is_not_lost():
    """The broker had no time to make the log; nor at its next start."""
    cluster = Cluster("d1")
    cluster.register(None, "d1")
    cluster.start(None, "d1")
    assert (cluster.partition.leader, cluster.partition.isr) == (1, (1,))


def test_an_older_disk_does_not_come_back_as_if_nothing_had_been_written_since():
    """The loss was accepted, and records were written to the new disk."""
    cluster = Cluster("d1")
    cluster.start(None, "new")
    cluster.accept_the_loss()
    epoch = cluster.partition.leader_epoch
    assert cluster.partition.leader == 1
    cluster.start(Replica("d1", 0), "d1")
    assert cluster.partition.leader == -1
    cluster.start(Replica("new", epoch), "new")
    assert cluster.partition.leader == 1


def test_a_directory_that_is_offline_loses_nothing():
    """Nobody knows yet what is in it."""
    cluster = Cluster("d1", "d2")
    cluster.start(OFFLINE, "d1", "d2")
    assert cluster.partition.isr == (1,)
    cluster.start(None, "d1")
    assert cluster.partition.isr == ()
    cluster.register(OFFLINE, "d1")
    assert cluster.partition.isr == ()
