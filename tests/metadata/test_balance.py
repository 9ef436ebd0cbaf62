"""Leadership goes back to preferred leaders, and to whoever may lead where nobody does."""

from kwire.metadata.balance import MOST_ELECTIONS, balanced, elections, with_leaders
from kwire.metadata.changes import ConfigChanged, apply
from kwire.metadata.image import (
    BrokerImage,
    ConfigResourceType,
    MetadataImage,
    PartitionImage,
)
from tests.support.images import topic_created

IMAGE = MetadataImage(brokers={node: BrokerImage(node, None, ()) for node in (1, 2, 3)})
PREFERRED = PartitionImage(1, 5, (1, 2), (1, 2), 7)
ASTRAY = PREFERRED._replace(leader=2)


def _image(*partitions):
    return apply(IMAGE, [topic_created(*partitions)], 1)


def _leaders(image, changes):
    return [one.leader for one in apply(image, changes, 2).topics_by_name["t"].partitions]


def test_more_than_a_tenth_astray_is_too_much():
    """Of the partitions that prefer a broker; then all of them go back."""
    tenth = _image(*[PREFERRED] * 9, ASTRAY)
    assert balanced(tenth) == []
    more = _image(*[PREFERRED] * 8, ASTRAY, ASTRAY)
    changes = balanced(more)
    assert _leaders(more, changes) == [1] * 10
    assert elections(changes) == 2


def test_who_is_not_in_sync_or_shuts_down_gets_nothing():
    behind = _image(ASTRAY._replace(isr=(2,)))
    assert balanced(behind) == []
    brokers = dict(IMAGE.brokers)
    brokers[1] = brokers[1]._replace(is_shutting_down=True)
    assert balanced(_image(ASTRAY)._replace(brokers=brokers)) == []


def test_one_commit_has_so_many_elections():
    image = _image(*[ASTRAY] * (MOST_ELECTIONS + 5))
    assert elections(balanced(image)) == MOST_ELECTIONS


def test_the_config_lets_somebody_lead_who_may_lack_records():
    """It may have been set after the last leader had gone. An only replica is no case for it."""
    waiting = PartitionImage(-1, 5, (1, 2, 4), (), 7, elr=(4,), last_known_elr=(4,))
    only = PartitionImage(-1, 5, (1,), (), 7)
    image = _image(waiting, only)
    assert with_leaders(image) == []
    name = "unclean.leader.election.enable"
    allowed = apply(image, [ConfigChanged(ConfigResourceType.TOPIC, "t", name, "true")], 2)
    assert _leaders(allowed, with_leaders(allowed)) == [1, -1]
