"""A member that subscribes by a regular expression learns of no topic that it may not see."""

import pytest

from tests.coordinator.consumer.conftest import ConsumerScript
from tests.coordinator.consumer.notation import GROUP


@pytest.fixture
def group():
    """A coordinator in a cluster with two topics."""
    script = ConsumerScript()
    script.do_topics([], {"orders": "1", "others": "1"})
    return script


def _has(script, name):
    """The topics of a member's partitions."""
    return {topic for topic, partitions in script.member(name).owned.items() if partitions}


def _resolved(script, regex="o.*"):
    return set(script.coordinator.groups[GROUP].regexes[regex].topics)


def test_it_gets_what_it_sees(group):
    """Nothing else is in the group's records, so a description doesn't tell it either."""
    group.do_join(["a"], {"regex": "o.*", "sees": "orders"})
    group.do_beat(["a"], {"sees": "orders"})
    assert _has(group, "a") == {"orders"}
    assert _resolved(group) == {"orders"}


def test_a_topic_is_there_when_it_may_be_seen(group):
    """Another revision of the metadata, as after a change of ACLs, has it looked at again."""
    group.do_join(["a"], {"regex": "o.*", "sees": "orders"})
    group.do_topics([], {"orders": "1", "others": "1"})
    group.do_beat(["a"], {"sees": "orders,others"})
    group.do_beat(["a"], {"sees": "orders,others"})
    assert _has(group, "a") == {"orders", "others"}
    group.do_topics([], {"orders": "1", "others": "1"})
    for _ in range(3):
        group.do_beat(["a"], {"sees": "others"})
    assert _has(group, "a") == {"others"}


def test_what_another_version_has_matched_is_looked_at_again(group):
    """After a restart the next heartbeat of the member counts, though no topic has changed."""
    group.do_join(["a"], {"regex": "o.*"})
    assert _resolved(group) == {"orders", "others"}
    group.do_restart([], {})
    for _ in range(3):
        group.do_beat(["a"], {"sees": "orders"})
    assert _resolved(group) == {"orders"}
    assert _has(group, "a") == {"orders"}


def test_members_with_one_expression_share_its_topics(group):
    """The first of them counts, as long as it subscribes by it."""
    group.do_join(["a"], {"regex": "o.*", "sees": "orders"})
    group.do_join(["b"], {"regex": "o.*", "sees": "others"})
    assert _resolved(group) == {"orders"}
    group.do_join(["c"], {"regex": "ot.*", "sees": "orders"})
    assert _resolved(group, "ot.*") == set()
    group.do_beat(["a"], {"regex": "x.*", "sees": "orders"})
    group.do_beat(["b"], {"sees": "others"})
    assert _resolved(group) == {"others"}
    assert set(group.coordinator.groups[GROUP].views) == {"o.*", "ot.*", "x.*"}
    group.do_leave(["c"], {})
    assert set(group.coordinator.groups[GROUP].views) == {"o.*", "x.*"}


def test_long_matches_are_looked_through_too(group, monkeypatch):
    """They come from a thread, some time later."""
    monkeypatch.setattr("kwire.coordinator.consumer.group_update.QUICK_COST", 0)
    group.do_join(["a"], {"regex": "o.*", "sees": "orders"})
    assert _resolved(group) == {"orders"}
