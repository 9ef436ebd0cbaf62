"""The partitions' states: asked for, asked for again, and what is left by a crash or a failure."""

from kwire.coordinator.share.member import ShareMember
from kwire.errors import ErrorCode, KafkaError
from tests.coordinator.consumer.notation import GROUP, topic_id


def test_a_state_that_fails_is_asked_for_again(script):
    """After a second, with all states of its topic; members have the other topics meanwhile."""
    script.run(
        """
        topics t=2 u=1
        join a topics=t,u
            a joins and subscribes to t, u
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
        states fail t:1
            t got no share state: COORDINATOR_NOT_AVAILABLE: no luck
            assigned at epoch 3 to 1 members, simple
        beat a
            a: epoch 3 has u:0
        states asked
        show
            Stable epoch 3 target 3
            a epoch 3 u:0 -> u:0
            initializing t:0,1
            initialized u:0
        after 1
        beat a
            a: epoch 3
        states asked
            epoch 3: t-0 -1, t-1 -1
        states come
            assigned at epoch 4 to 1 members, simple
        """
    )


def test_a_state_without_an_answer_is_asked_for_again(new_script):
    """After group.share.initialize.retry.interval.ms, and at once after a restart."""
    new_script(initialize_retry_interval_ms=10_000).run(
        """
        topics t=1
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
        after 9
        beat a
            a: epoch 2
        states asked
            epoch 2: t-0 -1
        after 1
        beat a
            a: epoch 2
        states asked
            epoch 2: t-0 -1
            epoch 2: t-0 -1
        restart
        beat a
            a: epoch 2
        states asked
            epoch 2: t-0 -1
            epoch 2: t-0 -1
            epoch 2: t-0 -1
        states come
            nobody takes it
            nobody takes it
            assigned at epoch 3 to 1 members, simple
        """
    )


def test_a_restart_loses_nothing(script):
    """Members go on with their epochs and partitions."""
    script.run(
        """
        states come_at_once
        topics t=2
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
            assigned at epoch 3 to 1 members, simple
        beat a
            a: epoch 3 has t:0,1
        records
            10 11 13 12 14 15 15 11 13 12 14
        restart
        beat a
            a: epoch 3
        records
            none
        show
            Stable epoch 3 target 3
            a epoch 3 t:0,1 -> t:0,1
            initialized t:0,1
        after 45
            +45s a is out: its session has ended
        """
    )


def test_a_failed_write_leaves_nothing(script):
    """No group, no work; a group that exists stays as it is."""
    script.run(
        """
        topics t=1
        writes fail
        join a
            a: NOT_COORDINATOR
        show
            nothing
        states asked
        writes work
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
        states come
            assigned at epoch 3 to 1 members, simple
        writes fail
        leave a
            a: NOT_COORDINATOR
        writes work
        beat a
            a: epoch 3 has t:0
        """
    )


def test_long_assignments_are_jobs(script):
    """Of a group that changes meanwhile, the result is taken, and the next one follows."""
    script.run(
        """
        topics t=2000
        jobs hold
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
        states come
            begins the assignment of group g at epoch 3
        join b
            b joins and subscribes to t
            b: epoch 2 has -
        jobs work
            assigned at epoch 3 to 1 members, simple
            begins the assignment of group g at epoch 4
        jobs fail
            could not be assigned partitions: RuntimeError('no luck')
        after 1
            +1s begins the assignment of group g at epoch 4
        jobs work
            assigned at epoch 4 to 2 members, simple
        """
    )
    group = script.group
    assert {name: len(group.target_of(name)[topic_id("t")]) for name in "ab"} == {
        "a": 1000,
        "b": 1000,
    }


def test_deleted_topics_are_forgotten(script):
    """Their share coordinator ends their states by itself."""
    script.run(
        """
        states come_at_once
        topics t=1 u=1
        join a topics=t,u
            a joins and subscribes to t, u
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
            assigned at epoch 3 to 1 members, simple
        topics u=1
        """
    )
    for effects in script.coordinator.share.forget_topics(script.now_ms):
        script.take(effects)
    assert set(script.group.states.initialized) == {topic_id("u")}


def test_offsets_are_altered_and_deleted(script):
    """The group is created for it; states that are begun anew, deleted, or fail."""
    script.run("topics t=2 u=1")
    groups, offsets = script.coordinator.share, script.coordinator.share.offsets
    begun = offsets.alter(groups.group_or_new(GROUP), {topic_id("t"): {0: 7, 1: 8}}, script.now_ms)
    script.take(begun.effects)
    assert begun.work.starts == {(topic_id("t"), 0): 7, (topic_id("t"), 1): 8}
    failures = {(topic_id("t"), 1): KafkaError(ErrorCode.FENCED_STATE_EPOCH)}
    script.take(begun.work.hand_in(failures, script.now_ms))
    script.run(
        """
        show
            Empty epoch 1 target 1
            initialized t:0
        records
            15 15
        """
    )
    topics = [script.topics.by_name(name) for name in "tu"]
    begun = offsets.delete(groups.group(GROUP), topics, script.now_ms)
    script.take(begun.effects)
    assert begun.work.starts == {(topic_id("t"), 0): None}
    script.run(
        """
        show
            Empty epoch 1 target 1
            deleting t
        """
    )
    script.take(begun.work.hand_in(failures, script.now_ms))
    assert script.group.states.deleting == {topic_id("t"): "t"}
    begun = offsets.delete_all(groups.group(GROUP), script.now_ms)
    assert begun.work.starts == {(topic_id("t"), 0): None, (topic_id("t"), 1): None}
    script.take(begun.work.hand_in({}, script.now_ms))
    assert script.group.states.deleting == {}


def test_a_share_group_is_no_consumer_group(script):
    """Nobody commits offsets to it, and it doesn't end for want of offsets."""
    script.run(
        """
        topics t=1
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
        leave a
            a is out: it left
            a: epoch -1
        """
    )
    for effects in script.coordinator.expire_offsets(lambda date_ms: 1 << 50):
        script.take(effects)
    assert script.group.state_name == "Empty"
    assert script.group.members.get("a", ShareMember("a")).epoch == 0


def test_an_assignment_for_members_who_have_left_is_dropped(script):
    """The empty group's epoch is further by then."""
    script.run(
        """
        topics t=2000
        jobs hold
        join a
            a joins and subscribes to t
            assigned at epoch 2 to 1 members, simple
            a: epoch 2 has -
        states come
            begins the assignment of group g at epoch 3
        leave a
            a is out: it left
            a: epoch -1
        jobs work
        show
            Empty epoch 4 target 4
            initialized t:0,1,2,3,4,5,6,7,8,9
        """.replace("t:0,1,2,3,4,5,6,7,8,9", "t:" + ",".join(map(str, range(2000))))
    )
