"""A cluster on one machine starts again, with more brokers or fewer, or with one that is alone."""

import pytest

from kwire.metadata.changes import BrokerRegistered, apply
from kwire.metadata.fewer_brokers import ReplicasElsewhere, be_alone, begin_together, gather
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage
from kwire.metadata.registration import register, unfence
from tests.support.images import topic_created


def _cluster(*leaders: int) -> MetadataImage:
    """Brokers 1 to 3, and a topic ``t`` with these leaders."""
    image = MetadataImage()
    for node_id in (1, 2, 3):
        broker = BrokerImage(node_id, None, (), f"i{node_id}")
        image = apply(image, register(image, broker), image.revision + 1)
        image = apply(image, unfence(image, node_id, f"i{node_id}"), image.revision + 1)
    partitions = tuple(PartitionImage(node, 0, (node,), (node,)) for node in leaders)
    return apply(image, [topic_created(*partitions)], image.revision + 1)


def test_before_the_start_nobody_serves():
    """Of brokers that were killed, the image says that they do."""
    image = _cluster(1, 2)
    image = apply(image, begin_together(image, (1, 2)), image.revision + 1)
    assert sorted(image.brokers) == [1, 2]
    assert all(broker.is_fenced for broker in image.brokers.values())
    found = image.topics_by_name["t"].partitions
    assert [(one.leader, one.isr) for one in found] == [(-1, (1,)), (-1, (2,))]
    assert begin_together(image, (1, 2)) == []


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ((1, 2), "partitions of t are on node.id 3, .*: start with kwire serve --workers 3"),
        ((1,), "node.id 2, 3, .* --workers 3"),
        ((2, 3), "node.id 1, .*: start with -o node.id=1"),
    ],
)
def test_replicas_are_never_left_out(nodes, told):
    with pytest.raises(ReplicasElsewhere, match=told):
        begin_together(_cluster(1, 2, 3), nodes)


def test_one_is_alone_again():
    """It leads what it has, is its own controller, and nobody else is registered."""
    image = _cluster(1, 1)
    image = apply(image, begin_together(image, (1, 2, 3)), image.revision + 1)
    alone = BrokerImage(1, None, (("PLAINTEXT", "127.0.0.1", 9092),))
    image = apply(image, be_alone(image, alone), image.revision + 1)
    assert image.brokers == {1: alone}
    assert [one.leader for one in image.topics_by_name["t"].partitions] == [1, 1]
    assert image.controller_id == 1
    assert BrokerRegistered(alone) not in begin_together(image, (1,))


def test_one_is_not_alone_while_others_have_replicas():
    with pytest.raises(ReplicasElsewhere):
        be_alone(_cluster(1, 2), BrokerImage(1, None, ()))


def _with(*partitions: PartitionImage) -> MetadataImage:
    """Brokers 1 to 3, and a topic ``t`` with these partitions."""
    image = _cluster()
    return apply(image, [topic_created(*partitions)], 9)


def test_replicas_that_have_all_records_stay_behind_alone():
    """In the ISR, or eligible where it is empty; a reassignment that was under way is over."""
    image = _with(
        PartitionImage(1, 4, (1, 2), (2, 1), 5),
        PartitionImage(-1, 4, (3, 1), (), 5, elr=(1,)),
        PartitionImage(2, 4, (2, 1, 3), (2, 1), 5, adding=(3,)),
        PartitionImage(1, 4, (1,), (1,), 5),
    )
    image = apply(image, gather(image, {1}), 10)
    assert list(image.brokers) == [1]
    assert image.topics_by_name["t"].partitions == (
        PartitionImage(-1, 5, (1,), (1,), 6),
        PartitionImage(-1, 5, (1,), (1,), 6),
        PartitionImage(-1, 5, (1,), (1,), 6),
        PartitionImage(-1, 5, (1,), (1,), 6),
    )
    image = apply(image, be_alone(image, BrokerImage(1, None, ())), 11)
    assert {one.leader for one in image.topics_by_name["t"].partitions} == {1}


@pytest.mark.parametrize(
    ("partition", "told"),
    [
        (PartitionImage(2, 0, (2, 3), (2, 3)), "of t are on node.id 2, 3 alone: .* to node.id 1"),
        (PartitionImage(2, 0, (1, 2), (2,)), "may lack records that node.id 2 has: .* 1 last"),
        (PartitionImage(-1, 0, (1, 2), (), elr=(2,)), "may lack records that node.id 2 has"),
    ],
)
def test_nothing_is_gathered_where_records_are_elsewhere(partition, told):
    with pytest.raises(ReplicasElsewhere, match=told):
        gather(_with(partition), {1})
