"""Members of a streams group join, share the tasks out, and leave (KIP-1071)."""

import pytest

from kwire.coordinator.effects import Effects
from kwire.coordinator.group import Committer
from kwire.coordinator.joining import Client
from kwire.coordinator.streams.topology.configured import StatusCode
from kwire.errors import ErrorCode
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    TaskOffset,
)
from tests.coordinator.streams.conftest import (
    CHANGELOG,
    GROUP,
    SOURCE,
    refused,
    tasks,
    topology,
)

# One member, and several


def test_the_first_member_gets_all_tasks_at_once(app):
    answer = app.join("a")
    assert (answer.member_epoch, app.active["a"]) == (2, [0, 1, 2, 3])
    assert (answer.status, answer.heartbeat_interval_ms) == ([], 100)
    assert (answer.task_offset_interval_ms, answer.acceptable_recovery_lag) == (60_000, 10_000)
    assert app.group.state_name == "Stable"
    assert app.records_since(0) == [19, 23, 17, 21, 20, 22]


def test_a_member_without_news_is_told_nothing_and_writes_nothing(app):
    app.join("a")
    written = len(app.log)
    answer = app.beat("a")
    assert answer.active_tasks is None
    assert app.records_since(written) == []


def test_a_task_moves_only_when_its_owner_has_given_it_back(app):
    """In between nobody runs it; the newcomer is at its epoch already."""
    app.join("a")
    app.join("b")
    assert (app.epochs["b"], app.active["b"]) == (3, [])
    assert app.group.state_name == "Reconciling"
    app.beat("a")  # learns which tasks it keeps, and has yet to give the others back
    assert len(app.active["a"]) == 2
    assert app.epochs["a"] == 2
    app.beat("b")
    assert app.active["b"] == []
    app.beat("a")  # reports that it has given them back
    assert app.epochs["a"] == 3
    app.beat("b")
    assert sorted(app.active["a"] + app.active["b"]) == [0, 1, 2, 3]
    assert app.group.state_name == "Stable"


def test_a_member_that_leaves_gives_its_tasks_to_the_others(app):
    app.join("a")
    app.join("b")
    app.settle("a", "b")
    answer = app.leave("b")
    assert (answer.member_epoch, answer.status) == (-1, [])
    app.settle("a")
    assert app.active["a"] == [0, 1, 2, 3]


def test_the_last_member_leaves_an_empty_group_behind(app):
    app.join("a")
    written = len(app.log)
    app.leave("a")
    assert app.group.state_name == "Empty"
    assert app.records_since(written) == [-22, -21, -19, 17, 20]
    app.take(app.coordinator.delete(GROUP))
    assert GROUP not in app.coordinator.groups
    assert app.records_since(written)[5:] == [-20, -17, -23]


def test_a_group_with_members_is_not_deleted(app):
    app.join("a")
    with refused(ErrorCode.NON_EMPTY_GROUP):
        app.coordinator.delete(GROUP)


def test_standby_tasks_are_on_another_process(new_application):
    app = new_application(standby_replicas=1)
    app.set_topics({SOURCE: 2, CHANGELOG: 2})
    stateful = topology(stateful=True)
    app.join("a", topology=stateful)
    assert (app.active["a"], app.standby["a"]) == ([0, 1], [])
    app.join("b", topology=stateful)
    app.settle("a", "b")
    assert sorted(app.active["a"] + app.active["b"]) == [0, 1]
    assert sorted(app.standby["a"]) == sorted(app.active["b"])
    assert sorted(app.standby["b"]) == sorted(app.active["a"])


# Time


def test_a_member_that_is_silent_is_removed(app):
    app.join("a")
    app.wait(44)
    assert "a" in app.group.members
    app.wait(2)
    assert app.group.state_name == "Empty"
    with refused(ErrorCode.UNKNOWN_MEMBER_ID, "Member a is not a member of group app."):
        app.beat("a")


def test_a_member_that_keeps_tasks_too_long_is_removed(app):
    app.join("a", rebalance_timeout_ms=10_000)
    app.join("b")
    held = list(app.active["a"])
    app.beat("a")
    for _ in range(12):
        app.wait(1)
        app.beat("b")
        if "a" in app.group.members:
            app.beat("a", active_tasks=tasks(held))
    assert "a" not in app.group.members
    assert app.active["b"] == [0, 1, 2, 3]


def test_members_that_join_an_empty_group_wait_for_each_other(new_application):
    app = new_application(initial_rebalance_delay_ms=3_000)
    answer = app.join("a")
    assert (answer.member_epoch, answer.active_tasks) == (1, [])
    assert app.statuses() == [StatusCode.ASSIGNMENT_DELAYED]
    assert answer.status[0].status_detail == (
        "Assignment delayed due to the configured initial rebalance delay."
    )
    app.join("b")
    app.wait(3)
    app.beat("a")
    app.beat("b")
    assert (len(app.active["a"]), len(app.active["b"])) == (2, 2)
    assert app.statuses() == []


def test_two_assignments_are_an_interval_apart(new_application):
    app = new_application(assignment_interval_ms=1_000)
    app.join("a")
    answer = app.join("b")
    assert answer.status[0].status_detail == (
        "Assignment delayed due to the configured assignment interval."
    )
    app.wait(1)
    app.settle("a", "b")
    assert (len(app.active["a"]), len(app.active["b"])) == (2, 2)


# Epochs and tasks that a member reports


def test_a_member_whose_answer_was_lost_goes_on(app):
    app.join("a")
    app.join("b")
    app.settle("a", "b")
    app.leave("b")
    before, held = app.epochs["a"], list(app.active["a"])
    app.beat("a")
    answer = app.beat("a", member_epoch=before, active_tasks=tasks(held))
    assert answer.member_epoch == app.group.epoch
    with refused(ErrorCode.FENCED_MEMBER_EPOCH, "smaller member epoch"):
        app.beat("a", member_epoch=before, active_tasks=None, standby_tasks=None, warmup_tasks=None)


def test_a_member_whose_answer_was_lost_is_told_its_tasks_again(app):
    """Otherwise nobody would run them: the coordinator may have died after it wrote them."""
    app.join("a")
    app.join("b")
    app.beat("a")
    app.beat("a")
    epoch, had = app.epochs["b"], app.active["b"]
    told = app.beat("b").active_tasks
    assert told
    app.epochs["b"], app.active["b"] = epoch, had  # the answer was lost
    assert app.beat("b").active_tasks == told
    assert app.beat("b").active_tasks is None


def test_a_member_with_an_unknown_epoch_is_fenced(app):
    app.join("a")
    with refused(ErrorCode.FENCED_MEMBER_EPOCH, "greater member epoch (9)"):
        app.beat("a", member_epoch=9)
    with refused(ErrorCode.FENCED_MEMBER_EPOCH, "smaller member epoch (1)"):
        app.beat("a", member_epoch=1)


def test_a_member_that_comes_back_gets_its_tasks_again(app):
    app.join("a")
    answer = app.join("a")
    assert (answer.member_epoch, app.active["a"]) == (2, [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("reported", "text"),
    [
        ([9], "Task 9 for subtopology 0 is invalid. Number of tasks for this subtopology: 4"),
        ([-1], "Task -1 for subtopology 0 is invalid. Number of tasks for this subtopology: 4"),
    ],
)
def test_tasks_that_there_arent_are_refused(app, reported, text):
    app.join("a")
    with refused(ErrorCode.INVALID_REQUEST, text):
        app.beat("a", active_tasks=tasks(reported))


def test_tasks_of_a_subtopology_may_be_listed_one_by_one(app):
    app.join("a")
    held = [task for partition in range(4) for task in tasks([partition])]
    assert app.beat("a", active_tasks=held).error_code == ErrorCode.NONE
    with refused(ErrorCode.INVALID_REQUEST, "Task 4 for subtopology 0 is invalid."):
        app.beat("a", active_tasks=held + tasks([4]))


def test_a_group_of_the_largest_size_takes_no_more(new_application):
    app = new_application(max_size=1)
    app.join("a")
    app.join("a")
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED, "maximum capacity of 1 members"):
        app.join("b")


# Topologies and topics


def test_members_of_a_group_that_waits_for_source_topics_have_no_tasks(app):
    app.set_topics({})
    answer = app.join("a")
    assert app.statuses() == [StatusCode.MISSING_SOURCE_TOPICS]
    assert answer.status[0].status_detail == "Source topics source are missing."
    assert (app.active["a"], app.group.state_name) == ([], "NotReady")
    app.set_topics({SOURCE: 1})
    app.beat("a")
    assert (app.active["a"], app.group.state_name) == ([0], "Stable")


def test_internal_topics_that_are_missing_are_named_until_they_are_there(app):
    app.join("a", topology=topology(stateful=True))
    assert app.statuses() == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert list(app.coordinator.streams.missing_topics(GROUP)) == [CHANGELOG]
    app.set_topics({SOURCE: 4, CHANGELOG: 4})
    app.beat("a")
    assert app.coordinator.streams.missing_topics(GROUP) == {}
    assert app.active["a"] == [0, 1, 2, 3]


def test_a_topic_with_more_partitions_brings_more_tasks(app):
    app.join("a")
    app.set_topics({SOURCE: 6})
    app.beat("a")
    assert app.active["a"] == [0, 1, 2, 3, 4, 5]


def test_a_member_with_an_older_topology_is_told_so(app):
    app.join("a", topology=topology(epoch=1))
    app.join("b", topology=topology(epoch=0, source="other"))
    assert StatusCode.STALE_TOPOLOGY in app.statuses()


def test_another_topology_is_refused(app):
    app.join("a")
    for other in (topology(source="other"), topology(epoch=1)):
        with refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet."):
            app.join("b", topology=other)


def test_other_settings_of_assignments_assign_anew(app):
    app.join("a")
    app.settings = app.settings._replace(standby_replicas=1)
    assert app.beat("a").member_epoch == 3


def test_a_member_without_the_tags_of_racks_is_told_so(new_application):
    app = new_application(rack_aware_tags=("zone", "cluster"))
    app.join("a", client_tags=[KeyValue(key="zone", value="z1")])
    assert app.statuses() == [StatusCode.MISSING_CLIENT_TAGS]
    assert ": [cluster]." in app.last.status[0].status_detail


# What members say to each other


def test_one_member_shuts_the_whole_application_down(app):
    app.join("a")
    app.join("b")
    app.settle("a", "b")
    app.leave("b", shutdown_application=True)
    app.beat("a")
    assert StatusCode.SHUTDOWN_APPLICATION in app.statuses()
    assert "member b encountered a fatal error" in app.last.status[-1].status_detail
    app.leave("a")
    app.join("a")
    assert app.statuses() == []


def test_members_learn_who_answers_about_which_partitions(app):
    endpoint = Endpoint(host="h", port=1)
    [told] = app.join("a", user_endpoint=endpoint).partitions_by_user_endpoint
    assert told.user_endpoint == endpoint
    assert app.beat("a").partitions_by_user_endpoint is None
    answer = app.beat("a", endpoint_information_epoch=-1)
    [told] = answer.partitions_by_user_endpoint
    assert (told.user_endpoint, told.standby_partitions) == (endpoint, [])
    assert [(t.topic, t.partitions) for t in told.active_partitions] == [(SOURCE, [0, 1, 2, 3])]
    app.join("b")
    app.beat("a")
    answer = app.beat("b")
    assert answer.endpoint_information_epoch == 1
    [told] = answer.partitions_by_user_endpoint
    assert len(told.active_partitions[0].partitions) == 2


def test_offsets_of_tasks_are_kept_as_long_as_the_member(app):
    app.join("a")
    known = [TaskOffset(subtopology_id="0", partition=1, offset=7)]
    unknown = [TaskOffset(subtopology_id="9", partition=1, offset=7)]
    app.beat("a", task_offsets=known + unknown)
    assert app.group.unrecorded.task_offsets["a"].offsets == {("0", 1): 7}
    with refused(ErrorCode.INVALID_REQUEST, "duplicate entry for subtopology 0 and partition 1."):
        app.beat("a", task_offsets=known + known)
    app.leave("a")
    assert app.group.unrecorded.task_offsets == {}


# Restarts, and writes that fail


def test_another_coordinator_goes_on_where_the_first_one_was(app):
    app.join("a", instance_id="i", client_tags=[KeyValue(key="zone", value="z")])
    app.join("b")
    app.beat("a", instance_id="i")
    seen = app.group
    app.load()
    for name in ("epoch", "target_epoch", "assignment_configs", "validated_topology_epoch"):
        assert getattr(app.group, name) == getattr(seen, name)
    assert app.group.members.frozen() == seen.members.frozen()
    assert app.group.targets.frozen() == seen.targets.frozen()
    assert app.group.runs.frozen() == seen.runs.frozen()
    for _ in range(3):
        app.beat("a", instance_id="i")
        app.beat("b")
    assert sorted(app.active["a"] + app.active["b"]) == [0, 1, 2, 3]


def test_a_group_whose_records_are_not_written_is_not_there(app):
    app.writes_fail = True
    app.join("a")
    assert GROUP not in app.coordinator.groups
    app.writes_fail = False
    app.join("a")
    assert app.active["a"] == [0, 1, 2, 3]


def test_a_removal_that_is_not_written_is_tried_again(app):
    app.join("a")
    app.writes_fail = True
    app.wait(46)
    assert "a" in app.group.members
    app.writes_fail = False
    app.wait(2)
    assert app.group.state_name == "Empty"


# Assignments that take long


def test_a_long_assignment_is_computed_elsewhere(app):
    app.set_topics({SOURCE: 1000})
    app.holds_jobs = True
    answer = app.join("a")
    assert (answer.member_epoch, app.active["a"]) == (1, [])
    assert app.statuses() == [StatusCode.ASSIGNMENT_DELAYED]
    app.join("b")
    app.finish_jobs()  # computes it again for both
    app.finish_jobs()
    app.beat("a")
    app.beat("b")
    assert (len(app.active["a"]), len(app.active["b"])) == (500, 500)


# Offsets


def commit(app, member_id: str, epoch: int, partition: int, **fields) -> None:
    """Raises what a commit is answered with."""
    committer = Committer(member_id, epoch, **{"api_version": 9, **fields})
    app.coordinator.committed.check_commit(GROUP, committer, app.now_ms)
    app.coordinator.committed.check_commit_of(GROUP, committer, SOURCE, bytes(16), partition)


def test_members_commit_what_they_had_at_their_epoch(app):
    app.join("a")
    app.join("b")
    app.beat("a")
    app.beat("a")
    kept = app.active["a"][0]
    commit(app, "a", 3, kept)
    commit(app, "a", 2, kept)
    with refused(ErrorCode.STALE_MEMBER_EPOCH, "newer than current member epoch 3."):
        commit(app, "a", 4, kept)
    [given_back, _] = sorted({0, 1, 2, 3} - set(app.active["a"]))
    with refused(ErrorCode.STALE_MEMBER_EPOCH, f"Task 0-{given_back} is not assigned"):
        commit(app, "a", 2, given_back)
    with refused(ErrorCode.STALE_MEMBER_EPOCH, "older than assignment epoch 2 for task"):
        commit(app, "a", 1, kept)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        commit(app, "x", 3, kept)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        commit(app, "", -1, kept)
    commit(app, "", -1, kept, is_transactional=True)
    with refused(ErrorCode.UNSUPPORTED_VERSION):
        commit(app, "a", 3, kept, api_version=8)


def test_nobody_is_asked_about_an_empty_group(app):
    app.join("a")
    app.leave("a")
    commit(app, "", -1, 0)


def test_members_fetch_at_their_epoch(app):
    app.join("a")
    check = app.coordinator.committed.check_fetch
    check(GROUP, None, -1)
    check(GROUP, "a", 2)
    with refused(ErrorCode.STALE_MEMBER_EPOCH):
        check(GROUP, "a", 1)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        check(GROUP, "x", 1)


def test_offsets_of_topics_that_tasks_read_are_kept(app):
    app.join("a")
    _, read = app.coordinator.committed.delete(GROUP, [(SOURCE, 0), ("other", 0)])
    assert read == {SOURCE}


# Groups of other kinds


def join_classic(app) -> Effects:
    """A member of the classic protocol joins."""
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return app.coordinator.members.join(request, Client("c", "/h", 3), "c", app.now_ms)


def test_an_empty_streams_group_becomes_classic_and_back(app):
    app.join("a")
    with refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
        join_classic(app)
    app.leave("a")
    effects = join_classic(app)
    effects.replies.clear()
    app.take(effects)
    assert app.coordinator.groups[GROUP].kind.value == "classic"
    with refused(ErrorCode.GROUP_ID_NOT_FOUND, "Group app is not a streams group."):
        app.join("a")
    app.wait(30)
    assert app.coordinator.state_of(GROUP) == "Empty"
    app.join("a")
    assert app.active["a"] == [0, 1, 2, 3]
    app.load()
    assert app.group.state_name == "Stable"


def test_a_group_that_is_not_there_is_named(app):
    with refused(ErrorCode.GROUP_ID_NOT_FOUND, "Streams group app not found."):
        app.beat("a", member_epoch=1)
    with refused(ErrorCode.GROUP_ID_NOT_FOUND, "Group app not found."):
        app.leave("a")


# Requests


NO_TASKS = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
FIRST = {"member_epoch": 0, "rebalance_timeout_ms": 1000, "topology": topology(), **NO_TASKS}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": " "}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active_tasks": tasks([1])}, "ActiveTasks must be empty when (re-)joining."),
        ({"standby_tasks": tasks([1])}, "StandbyTasks must be empty when (re-)joining."),
        ({"warmup_tasks": tasks([1])}, "WarmupTasks must be empty when (re-)joining."),
        ({"topology": None}, "Topology must be non-null when (re-)joining."),
        ({"warmup_tasks": None}, "WarmupTasks must be empty when (re-)joining."),
        (
            {"member_epoch": 1, "topology": None, "warmup_tasks": None},
            "If one task-type is non-null, all must be non-null.",
        ),
        ({"member_epoch": 1}, "Topology can only be provided when (re-)joining."),
        ({"member_epoch": -2, "topology": None}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
    ],
)
def test_a_request_that_says_nothing_sensible_is_refused(app, fields, text):
    request = StreamsGroupHeartbeatRequest(
        **{"group_id": GROUP, "member_id": "m", **FIRST, **fields}
    )
    with refused(ErrorCode.INVALID_REQUEST, text):
        app.coordinator.streams.heartbeat(request, Client("c", "/h", 1), "m", app.now_ms)


def test_a_changelog_has_as_many_partitions_as_there_are_tasks(app):
    wrong = topology(stateful=True)
    wrong.subtopologies[0].state_changelog_topics[0].partitions = 3
    with refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, "but it is set to 3."):
        app.join("a", topology=wrong)
    wrong = topology()
    wrong.subtopologies[0].source_topic_regex = [".*"]
    with refused(ErrorCode.INVALID_REQUEST, "Regular expressions for source topics"):
        app.join("a", topology=wrong)


def test_a_topology_has_no_more_tasks_than_records_have_room_for(app):
    app.set_topics({SOURCE: 50_001})
    with refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, "has 50001 tasks; a group may have 50000."):
        app.join("a")
    assert GROUP not in app.coordinator.groups
