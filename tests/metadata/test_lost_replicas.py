"""A broker that comes back without its records never leads an empty log silently."""

import pytest

from kwire.metadata.changes import ConfigChanged, TopicCreated, apply
from kwire.metadata.image import (
    BrokerImage,
    ConfigResourceType,
    MetadataImage,
    PartitionImage,
)
from kwire.metadata.leader_election import ElectionRules, active_brokers
from kwire.metadata.lost_replicas import (
    NEVER_MADE,
    OFFLINE,
    Replica,
    lost_partitions,
    lost_with_all_replicas,
)
from kwire.metadata.partition_change import with_elected_leader
from kwire.metadata.registration import fence, register, unfence, unregister
from tests.support.images import topic_created


def _broker(*directories: str) -> BrokerImage:
    return BrokerImage(1, None, (), "a", directories=directories)


class Cluster:
    """Broker 1, whose disks have ``replica`` when it starts, and a topic of one partition."""

    def __init__(self, *directories: str) -> None:
        self.image = MetadataImage()
        self.start(None, *directories)
        partition = PartitionImage(1, 0, (1,), (1,))
        self.do([topic_created(partition)])

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
        row = with_elected_leader(
            self.partition, ElectionRules(active_brokers(self.image)), unclean=True
        )
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


@pytest.mark.parametrize("replica", [None, NEVER_MADE])
def test_an_unregistered_broker_with_an_empty_disk_has_lost_its_replica(replica):
    """Its first leadership may have had records: nobody knows any more on which disks."""
    cluster = Cluster("d1")
    cluster.do(fence(cluster.image, frozenset({1})))
    cluster.do(unregister(cluster.image, 1))
    assert cluster.partition.leader_epoch == 1
    cluster.start(replica, "new")
    assert (cluster.partition.leader, cluster.partition.isr) == (-1, ())
    assert lost_partitions(cluster.image, 1) == ["t-0"]
    cluster.accept_the_loss()
    assert cluster.partition.leader == 1


def test_an_unregistered_broker_that_comes_back_with_its_disk_leads():
    """It has the records."""
    cluster = Cluster("d1")
    cluster.do(unregister(cluster.image, 1))
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


class TwoReplicas(Cluster):
    """A topic of one partition with replicas on brokers 1 and 2; 1 leads."""

    def __init__(self, min_isr: str = "2") -> None:
        super().__init__("d1")
        other = _broker("e1")._replace(node_id=2)
        self.do(register(self.image, other, lambda *_: None))
        self.do(unfence(self.image, 2, "a"))
        partition = PartitionImage(1, 0, (1, 2), (1, 2))
        config = ConfigChanged(ConfigResourceType.TOPIC, "t", "min.insync.replicas", min_isr)
        self.do([topic_created(partition), config])

    @property
    def eligible(self):
        return self.partition.isr, self.partition.elr


def test_one_of_several_replicas_is_eligible_while_its_records_are_there():
    """Its broker has restarted, and fewer than min.insync.replicas are in sync."""
    cluster = TwoReplicas()
    cluster.start(Replica("d1", 0), "d1")
    assert (cluster.partition.leader, *cluster.eligible) == (2, (2,), (1,))
    assert lost_partitions(cluster.image, 1) == []


def test_one_of_several_that_is_lost_is_not_eligible():
    """Not even as the last known leader: the other one is, when it is back."""
    cluster = TwoReplicas("1")
    cluster.do(fence(cluster.image, frozenset({2})))
    cluster.do(fence(cluster.image, frozenset({1})))
    assert cluster.eligible == ((), (1,))
    assert cluster.partition.last_known_elr == (1,)
    cluster.start(None, "d1")
    assert cluster.eligible == ((), ())
    assert (cluster.partition.leader, cluster.partition.last_known_elr) == (-1, ())
    assert lost_partitions(cluster.image, 1) == []


def _none_left():
    """Both brokers ended, 1 as the last leader; and no other replica is eligible."""
    cluster = TwoReplicas("1")
    cluster.do(fence(cluster.image, frozenset({2})))
    cluster.do(fence(cluster.image, frozenset({1})))
    assert cluster.partition.last_known_elr == (1,)
    return cluster


def test_another_replica_leads_if_the_last_leader_never_made_its_log():
    """It was in sync without any record, so none was acknowledged."""
    cluster = _none_left()
    cluster.start(NEVER_MADE, "d1")
    assert (cluster.partition.leader, cluster.partition.last_known_elr) == (-1, (2,))
    cluster.do(unfence(cluster.image, 2, "a"))
    assert (cluster.partition.leader, cluster.partition.isr) == (2, (2,))
    assert cluster.partition.is_recovering


def test_another_replica_that_is_there_leads_at_once():
    cluster = _none_left()
    cluster.do(unfence(cluster.image, 2, "a"))
    cluster.start(NEVER_MADE, "d1")
    assert cluster.partition.leader == 2


@pytest.mark.parametrize("change", [{"leader_epoch": 3}, {"adding": (2,)}, {"removing": (2,)}])
def test_a_replica_that_has_just_come_may_have_had_old_records(change):
    """Others still have them, so not just anybody may lead in its place."""
    cluster = _none_left()
    topic = cluster.image.topics_by_name["t"]
    row = cluster.partition._replace(**change)
    cluster.do([TopicCreated(topic._replace(partitions=(row,)))])
    cluster.start(NEVER_MADE, "d1")
    assert (cluster.partition.leader, cluster.partition.last_known_elr) == (-1, ())


def test_a_new_disk_does_not_know_whether_there_was_a_log():
    """It has no high watermark, but the old one may have had records."""
    cluster = _none_left()
    cluster.start(NEVER_MADE, "new")
    assert (cluster.partition.leader, cluster.partition.last_known_elr) == (-1, ())


def test_a_last_leader_whose_disk_knew_its_watermark_has_lost_its_log():
    """Nobody leads until an administrator asks for an unclean election."""
    cluster = _none_left()
    cluster.start(None, "d1")
    assert (cluster.partition.leader, cluster.partition.last_known_elr) == (-1, ())


def test_a_partition_is_lost_when_no_replica_may_lead_any_more():
    """For every broker that has a replica; not while the disk of the last leader may come back."""
    cluster = _none_left()
    assert lost_with_all_replicas(cluster.image, 1) == []
    cluster.register(None, "d1")
    found = [lost_with_all_replicas(cluster.image, node_id) for node_id in (1, 2, 3)]
    assert found == [["t-0"], ["t-0"], []]
    cluster.do(unfence(cluster.image, 1, "a"))
    cluster.do(unfence(cluster.image, 2, "a"))
    assert lost_with_all_replicas(cluster.image, 1) == ["t-0"]
    cluster.accept_the_loss()
    assert lost_with_all_replicas(cluster.image, 1) == []


def test_a_lost_partition_that_an_unclean_election_mends_by_itself_is_left_out():
    """The broker that starts is still fenced, and leads as soon as it isn't."""
    cluster = _none_left()
    kind = ConfigResourceType.TOPIC
    cluster.do([ConfigChanged(kind, "t", "unclean.leader.election.enable", "true")])
    cluster.register(None, "d1")
    assert cluster.partition.leader == -1
    assert lost_with_all_replicas(cluster.image, 1) == []
    cluster.do(unfence(cluster.image, 1, "a"))
    assert cluster.partition.leader == 1


def test_a_sole_replica_is_not_counted_twice():
    """It has a line of its own."""
    cluster = Cluster("d1")
    cluster.start(None, "new")
    assert lost_with_all_replicas(cluster.image, 1) == []


def test_one_of_several_on_another_disk_is_lost():
    """It may be older, however new the epoch is that its log knows."""
    cluster = TwoReplicas()
    cluster.start(Replica("old", 9), "old")
    assert cluster.eligible == ((2,), ())


def test_one_of_several_in_a_directory_that_is_offline_does_not_lead_if_another_can():
    cluster = TwoReplicas()
    cluster.start(OFFLINE, "d1")
    assert cluster.eligible == ((2,), ())
    alone = TwoReplicas("1")
    alone.do(fence(alone.image, frozenset({2})))
    alone.start(OFFLINE, "d1")
    assert alone.eligible == ((1,), ())
