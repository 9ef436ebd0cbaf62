"""Leadership goes back to preferred leaders, and to whoever may lead where nobody does."""

from kwire.metadata.changes import ConfigChanged, apply
from kwire.metadata.image import (
    BrokerImage,
    ConfigResourceType,
    MetadataImage,
    PartitionImage,
)
from kwire.metadata.preferred_leader_election import (
    MOST_ELECTIONS,
    count_elections,
    elect_missing_leaders,
    elect_preferred_leaders,
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
    assert elect_preferred_leaders(tenth) == []
    more = _image(*[PREFERRED] * 8, ASTRAY, ASTRAY)
    changes = elect_preferred_leaders(more)
    assert _leaders(more, changes) == [1] * 10
    assert count_elections(changes) == 2


def test_who_is_not_in_sync_or_shuts_down_gets_nothing():
    behind = _image(ASTRAY._replace(isr=(2,)))
    assert elect_preferred_leaders(behind) == []
    brokers = dict(IMAGE.brokers)
    brokers[1] = brokers[1]._replace(is_shutting_down=True)
    assert elect_preferred_leaders(_image(ASTRAY)._replace(brokers=brokers)) == []


def test_one_commit_has_so_many_elections():
    image = _image(*[ASTRAY] * (MOST_ELECTIONS + 5))
    assert count_elections(elect_preferred_leaders(image)) == MOST_ELECTIONS


def test_the_config_lets_somebody_lead_who_may_lack_records():
    """It may have been set after the last leader had gone. An only replica is no case for it."""
    waiting = PartitionImage(-1, 5, (1, 2, 4), (), 7, elr=(4,), last_known_elr=(4,))
    only = PartitionImage(-1, 5, (1,), (), 7)
    image = _image(waiting, only)
    assert elect_missing_leaders(image) == []
    name = "unclean.leader.election.enable"
    allowed = apply(image, [ConfigChanged(ConfigResourceType.TOPIC, "t", name, "true")], 2)
    assert _leaders(allowed, elect_missing_leaders(allowed)) == [1, -1]
