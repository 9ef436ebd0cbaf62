"""One member moves to its target, step by step; the other processes are as the test says."""

import pytest

from kwire.coordinator.streams.assignors.spec import MemberTasks
from kwire.coordinator.streams.member import (
    Description,
    MemberState,
    OwnedTasks,
    StreamsMember,
)
from kwire.coordinator.streams.reconciliation import Processes, Target, check_state, reconcile
from kwire.errors import ErrorCode, KafkaError

ME, OTHER = "me", "other"


def processes(active=None, standby=None, warmup=None) -> Processes:
    """Who has which task: a process by partition, and sets of processes."""
    return Processes(
        lambda _, partition: (active or {}).get(partition),
        lambda _, partition: frozenset((standby or {}).get(partition, ())),
        lambda _, partition: frozenset((warmup or {}).get(partition, ())),
    )


def target(active=(), standby=(), warmup=()) -> MemberTasks:
    """Tasks of subtopology 0."""
    return MemberTasks(*({"0": frozenset(one)} if one else {} for one in (active, standby, warmup)))


def owned(active=None, standby=(), warmup=()) -> OwnedTasks:
    """Tasks of subtopology 0; the active ones with their epochs."""
    return OwnedTasks(
        {"0": active} if active else {},
        *({"0": frozenset(one)} if one else {} for one in (standby, warmup)),
    )


def member(assigned: OwnedTasks, **fields) -> StreamsMember:
    """A member of this process at epoch 1."""
    given = {"epoch": 1, "about": Description(process_id=ME), "assigned": assigned, **fields}
    return StreamsMember("m", **given)


def test_a_standby_task_becomes_active_without_a_pause():
    """It stays a standby task until the process that runs it has stopped."""
    has = member(owned(standby=[0]))
    runs = processes({0: OTHER}, {0: [ME]})
    waiting = reconcile(has, Target(2, target(active=[0])), runs, target(standby=[0]))
    assert waiting.state is MemberState.UNRELEASED_TASKS
    assert (waiting.epoch, waiting.assigned) == (2, owned(standby=[0]))
    free = processes({}, {0: [ME]})
    done = reconcile(waiting, Target(2, target(active=[0])), free, target(standby=[0]))
    assert (done.state, done.assigned) == (MemberState.STABLE, owned({0: 2}))


def test_an_active_task_becomes_a_standby_task_as_it_is_given_back():
    has = member(owned({0: 1}))
    step = reconcile(has, Target(2, target(standby=[0])), processes({0: ME}), target(active=[0]))
    assert (step.state, step.epoch) == (MemberState.UNREVOKED_TASKS, 1)
    assert (step.assigned, step.revoking) == (owned(standby=[0]), owned({0: 1}))
    runs = processes({0: ME}, {0: [ME]})
    same = reconcile(step, Target(2, target(standby=[0])), runs, target(active=[0]))
    assert same is step
    done = reconcile(step, Target(2, target(standby=[0])), runs, target(standby=[0]))
    assert (done.state, done.assigned) == (MemberState.STABLE, owned(standby=[0]))


def test_copies_change_their_kind_at_once():
    has = member(owned(standby=[0], warmup=[1]))
    runs = processes({}, {0: [ME]}, {1: [ME]})
    done = reconcile(has, Target(2, target(standby=[1], warmup=[0])), runs, None)
    assert (done.state, done.epoch) == (MemberState.STABLE, 2)
    assert done.assigned == owned(standby=[1], warmup=[0])


@pytest.mark.parametrize("role", ["active", "standby", "warmup"])
def test_two_members_of_a_process_never_have_the_same_task(role):
    """They share the directory of the task."""
    for runs in (processes({0: ME}), processes({}, {0: [ME]}), processes({}, {}, {0: [ME]})):
        waiting = reconcile(member(owned()), Target(2, target(**{role: [0]})), runs, None)
        assert waiting.state is MemberState.UNRELEASED_TASKS
        assert waiting.assigned == owned()


@pytest.mark.parametrize("role", ["standby", "warmup"])
def test_another_process_may_have_a_copy(role):
    runs = processes({0: OTHER}, {0: [OTHER]}, {0: [OTHER]})
    done = reconcile(member(owned()), Target(2, target(**{role: [0]})), runs, None)
    assert done.assigned == owned(**{role: [0]})


def test_an_active_task_runs_in_one_process():
    waiting = reconcile(member(owned()), Target(2, target([0])), processes({0: OTHER}), None)
    assert waiting.assigned == owned()


def test_tasks_that_stay_keep_their_epoch():
    has = member(owned({0: 1, 1: 1}))
    done = reconcile(has, Target(2, target([0, 1, 2])), processes({0: ME, 1: ME}), None)
    assert done.assigned == owned({0: 1, 1: 1, 2: 2})


def test_a_member_that_does_not_say_what_it_has_still_has_it():
    has = member(owned({0: 1}), state=MemberState.UNREVOKED_TASKS, revoking=owned({1: 1}))
    assert reconcile(has, Target(2, target([0])), processes({0: ME, 1: ME}), None) is has


def test_a_state_of_a_newer_broker_fences_the_member():
    has = member(owned({0: 1}), state=MemberState(9))
    for reported in (None, target([0])):
        with pytest.raises(KafkaError) as caught:
            check_state(has, reported)
        assert caught.value.code == ErrorCode.FENCED_MEMBER_EPOCH
    done = reconcile(has, Target(2, target([0])), processes({0: ME}), target())
    assert (done.state, done.epoch) == (MemberState.STABLE, 2)
