"""Long work in a thread: every assignment and every match counts as long here."""

import sys

import pytest

from kwire.coordinator.consumer import assigning, group_update
from kwire.coordinator.consumer.assigning import AssignmentQuestion
from kwire.coordinator.consumer.group import ResolvedRegex
from kwire.coordinator.consumer.member import ConsumerMember, Description
from kwire.coordinator.consumer.topics import Topic, TopicSet


@pytest.fixture
def script(new_script, monkeypatch):
    """A script in which work is held until ``work``."""
    monkeypatch.setattr(assigning, "QUICK_COST", -1)
    monkeypatch.setattr(group_update, "QUICK_COST", -1)
    script = new_script()
    script.holds_jobs = True
    return script


def test_a_member_is_answered_before_its_assignment_is_computed(script):
    """It has nothing at first, at an epoch at which it can go on, and learns more as it does."""
    script.run(
        """
        topics t=2
        join a
            a joins
            a: epoch 1 has -
            begins the assignment of group g at epoch 2
        beat a
            a: epoch 1
        show
            Assigning epoch 2 target 1
            a epoch 1 STABLE - -> -
        work
            assigned at epoch 2 to 1 members, uniform
        beat a
            a: epoch 2 has t:0,1
        """
    )


def test_what_changes_meanwhile_is_assigned_anew_once(script):
    """A group that changes all the time gets assignments all the same: newcomers wait for one."""
    script.run(
        """
        topics t=2
        join a
            a joins
            a: epoch 1 has -
            begins the assignment of group g at epoch 2
        join b
            b joins
            b: epoch 1 has -
        work
            begins the assignment of group g at epoch 3
        join c
            c joins
            c: epoch 1 has -
        work
            assigned at epoch 3 to 2 members, uniform
            begins the assignment of group g at epoch 4
        show
            Assigning epoch 4 target 3
            a epoch 1 STABLE - -> t:0
            b epoch 1 STABLE - -> t:1
            c epoch 1 STABLE - -> -
        work
            assigned at epoch 4 to 3 members, uniform
        """
    )


def test_a_static_member_that_is_back_twice_is_assigned_partitions(script):
    """The epoch is the same, the members aren't: an assignment that doesn't name them isn't the
    last one.
    """
    script.run(
        """
        topics t=2
        join s instance=i
            s joins
            s: epoch 1 has -
            begins the assignment of group g at epoch 2
        away s instance=i
            static member i is away
            s: epoch -2
        join s2 instance=i id=s2
            static member i is back as s2
            s2: epoch 1 has -
        work
            begins the assignment of group g at epoch 2
        away s2 instance=i
            static member i is away
            s2: epoch -2
        join s3 instance=i id=s3
            static member i is back as s3
            s3: epoch 1 has -
        work
            assigned at epoch 2 to 1 members, uniform
            begins the assignment of group g at epoch 3
        work
            assigned at epoch 3 to 1 members, uniform
        show
            Reconciling epoch 3 target 3
            s3 epoch 1 STABLE - -> t:0,1
        """
    )


def test_no_partition_has_two_members_after_an_assignment_that_is_late(script):
    """Who came back under another id had what others were given: it has nothing until the next."""
    script.run(
        """
        topics t=2
        join s instance=i
            s joins
            s: epoch 1 has -
            begins the assignment of group g at epoch 2
        work
            assigned at epoch 2 to 1 members, uniform
        beat s
            s: epoch 2 has t:0,1
        join a
            a joins
            a: epoch 2 has -
            begins the assignment of group g at epoch 3
        join b
            b joins
            b: epoch 2 has -
        work
            begins the assignment of group g at epoch 4
        away s instance=i
            static member i is away
            s: epoch -2
        join s2 instance=i id=s2
            static member i is back as s2
            s2: epoch 2 has t:0,1
        join c
            c joins
            c: epoch 2 has -
        work
            assigned at epoch 4 to 3 members, uniform
            begins the assignment of group g at epoch 5
        show
            Assigning epoch 5 target 4
            a epoch 2 STABLE - -> t:1
            b epoch 2 STABLE - -> -
            s2 epoch 2 STABLE t:0,1 -> -
            c epoch 2 STABLE - -> -
        """
    )


def test_a_group_that_is_empty_or_gone_takes_nothing(script):
    """Nor does one of the same name that was made after it."""
    script.run(
        """
        topics t=2
        join a
            a joins
            a: epoch 1 has -
            begins the assignment of group g at epoch 2
        leave a
            a is out: it left
            a: epoch -1
        work
        show
            Empty epoch 3 target 1
        join a
            a joins
            a: epoch 1 has -
            begins the assignment of group g at epoch 4
        leave a
            a is out: it left
            a: epoch -1
        delete
        join a
            a joins
            a: epoch 1 has -
            begins the assignment of group g at epoch 2
        work
            assigned at epoch 2 to 1 members, uniform
        """
    )


def test_a_coordinator_that_loads_the_group_computes_anew(script):
    """What the one before it had begun is handed in to nobody."""
    script.run(
        """
        topics t=2
        join a
            a joins
            a: epoch 1 has -
            begins the assignment of group g at epoch 2
        restart
        after 0
            +0s begins the assignment of group g at epoch 2
        work
            nobody takes it
            assigned at epoch 2 to 1 members, uniform
        """
    )


def test_an_assignor_that_fails_is_tried_again(script):
    """After a second, or with the next heartbeat; members go on with what they have."""
    script.run(
        """
        topics t=2
        join a
            a joins
            a: epoch 1 has -
            begins the assignment of group g at epoch 2
        work fails
            could not be assigned partitions: RuntimeError('no luck')
        after 1
            +1s begins the assignment of group g at epoch 2
        work
            assigned at epoch 2 to 1 members, uniform
        """
    )


def test_a_write_that_fails_is_tried_again(script):
    """Work isn't begun for what wasn't written; what couldn't be written is computed anew."""
    script.run(
        """
        topics t=2
        writes fail
        join a
            a: NOT_COORDINATOR
        work
        writes work
        join a
            a joins
            a: epoch 1 has -
            begins the assignment of group g at epoch 2
        writes fail
        work
        writes work
        after 1
            +1s begins the assignment of group g at epoch 2
        work
            assigned at epoch 2 to 1 members, uniform
        """
    )


def test_what_is_handed_in_later_is_written_with_its_date(script):
    """Not with the time of the deadlines: the interval after it is told by the date."""
    script.settings = script.settings._replace(assignment_interval_ms=2000)
    script.date_ahead_ms = 3_600_000
    script.run(
        """
        topics t=2
        join a regex=t
            a joins
            a: epoch 1 has -
            begins matching 1 expressions of group g
            begins the assignment of group g at epoch 1
        work
            begins the assignment of group g at epoch 2
        work
            assigned at epoch 2 to 1 members, uniform
        """
    )
    date_ms = script.now_ms + script.date_ahead_ms
    assert script.group.regexes["t"].timestamp_ms == date_ms
    assert script.group.target_timestamp_ms == date_ms
    script.trace.clear()
    script.run(
        """
        join b
            b joins
            b: epoch 2 has -
        after 2
            +2s begins the assignment of group g at epoch 3
        """
    )


def test_expressions_are_matched_elsewhere_too(script):
    """A new one stands for nothing until then; the group goes to its next epoch with the result."""
    script.run(
        """
        topics t=2 u=1
        join a regex=t|x
            a joins
            a: epoch 1 has -
            begins matching 1 expressions of group g
            begins the assignment of group g at epoch 1
        work
            begins the assignment of group g at epoch 2
        work
            assigned at epoch 2 to 1 members, uniform
        beat a
            a: epoch 2 has t:0,1
        topics t=2 u=1 x=1
        beat a
            a: epoch 2
            begins matching 1 expressions of group g
        beat a
            a: epoch 2
        work
            begins the assignment of group g at epoch 3
        work
            assigned at epoch 3 to 1 members, uniform
        beat a
            a: epoch 3 has t:0,1 x:0
        """
    )


def test_expressions_that_come_while_others_are_matched_are_next(script):
    """A group has one match at a time."""
    script.run(
        """
        topics t=2 u=1
        join a regex=t
            a joins
            a: epoch 1 has -
            begins matching 1 expressions of group g
            begins the assignment of group g at epoch 1
        join b regex=u
            b joins
            b: epoch 1 has -
        work
            begins matching 1 expressions of group g
            begins the assignment of group g at epoch 2
        work
            assigned at epoch 2 to 2 members, uniform
            begins the assignment of group g at epoch 3
        work
            assigned at epoch 3 to 2 members, uniform
        show
            Reconciling epoch 3 target 3
            a epoch 1 STABLE - -> t:0,1
            b epoch 1 STABLE - -> u:0
        """
    )


def test_a_match_that_fails_is_tried_again(script):
    """With the next heartbeat."""
    script.run(
        """
        topics t=2
        join a regex=t
            a joins
            a: epoch 1 has -
            begins matching 1 expressions of group g
            begins the assignment of group g at epoch 1
        work fails
            could not match its expressions: RuntimeError('no luck')
            could not be assigned partitions: RuntimeError('no luck')
        beat a
            a: epoch 1
            begins matching 1 expressions of group g
        work
            begins the assignment of group g at epoch 2
        """
    )


TOPICS = TopicSet([Topic("t", b"t" * 16, 300, (frozenset({"x"}),) * 300)])


@pytest.mark.parametrize(
    ("members", "racks", "is_quick"),
    [(10, 1, True), (10, 2, True), (10, 4, False), (700, 1, False)],
)
def test_small_assignments_are_computed_at_once(members, racks, is_quick):
    """What counts are members, the topics they read, partitions, and racks."""
    group = {
        str(n): ConsumerMember(str(n), Description(topics=("t",), rack_id=str(n % racks)))
        for n in range(members)
    }
    assert AssignmentQuestion("uniform", group, {}, {}, TOPICS).is_quick is is_quick


@pytest.mark.parametrize(("topics", "is_quick"), [(900, True), (1200, False)])
def test_what_expressions_stand_for_counts_as_topics_that_are_read(topics, is_quick):
    """Ten members with such an expression read ten times as many."""
    members = {
        str(n): ConsumerMember(str(n), Description(topics=("t",), regex="m.*")) for n in range(10)
    }
    matched = frozenset(f"m{n}" for n in range(topics))
    regexes = {"m.*": ResolvedRegex(matched, 1, 0)}
    known = TopicSet([])
    assert AssignmentQuestion("uniform", members, {}, regexes, known).is_quick is is_quick


def test_long_lists_of_topics_are_not_even_looked_at():
    """Whether a question is quick is itself asked on the event loop."""
    members = {"a": ConsumerMember("a", Description(topics=tuple(map(str, range(20_000)))))}
    topics = None  # nothing is asked of it
    assert not AssignmentQuestion("uniform", members, {}, {}, topics).is_quick


def test_who_joins_or_leaves_costs_the_same_in_a_group_of_any_size(new_script):
    """Between two assignments, apart from now and then: nobody looks at all members."""

    def steps_of_a_change(members):
        script = new_script(assignment_interval_ms=10_000_000)
        script.do_topics([], {"t": "4"})
        for number in range(members):
            script.do_join([f"m{number}"], {})
        return min(steps(script.do_join, number) for number in range(3)), min(
            steps(script.do_leave, number) for number in range(3)
        )

    def steps(do, number):
        """How many steps of the interpreter something takes."""
        count = 0

        def trace(frame, event, argument):
            nonlocal count
            frame.f_trace_opcodes = True
            count += event == "opcode"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            do([f"x{number}"], {})
        finally:
            sys.settrace(before)
        return count

    few, many = steps_of_a_change(30), steps_of_a_change(300)
    assert [round(more / less, 1) for more, less in zip(many, few, strict=True)] == [1.0, 1.0]
