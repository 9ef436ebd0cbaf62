"""Static members of a streams group go away for a while and come back (KIP-345)."""

from kwire.errors import ErrorCode
from tests.coordinator.streams.conftest import refused, topology


def test_a_static_member_keeps_its_tasks_while_it_is_away(app):
    app.join("a", instance_id="i")
    app.join("b")
    for _ in range(3):
        app.beat("a", instance_id="i")
        app.beat("b")
    held = app.active["a"]
    written, epoch = len(app.log), app.group.epoch
    assert app.leave("a", member_epoch=-2, instance_id="i").member_epoch == -2
    assert app.records_since(written) == [22]
    app.join("a2", instance_id="i", process_id="a")
    assert (app.active["a2"], app.group.epoch) == (held, epoch)
    assert "a" not in app.group.members


def test_an_instance_that_is_there_is_not_replaced(app):
    app.join("a", instance_id="i")
    with refused(ErrorCode.UNRELEASED_INSTANCE_ID, "owned by a member"):
        app.join("a2", instance_id="i")
    app.leave("a", member_epoch=-2, instance_id="i")
    app.join("a2", instance_id="i")
    with refused(ErrorCode.FENCED_INSTANCE_ID, "was fenced by member a2."):
        app.beat("a", instance_id="i")
    with refused(ErrorCode.UNKNOWN_MEMBER_ID, "Instance id j is unknown."):
        app.beat("a", instance_id="j")


def test_a_join_in_its_place_that_is_refused_leaves_a_static_member_its_session(app):
    app.join("a", instance_id="i")
    app.leave("a", member_epoch=-2, instance_id="i")
    with refused(ErrorCode.INVALID_REQUEST, "Topology updates"):
        app.join("a2", instance_id="i", topology=topology(source="other"))
    app.wait(44)
    assert "a" in app.group.members
    app.wait(2)
    assert app.group.state_name == "Empty"


def test_a_join_in_its_place_that_is_not_written_leaves_a_static_member_its_session(app):
    app.join("a", instance_id="i")
    app.leave("a", member_epoch=-2, instance_id="i")
    app.wait(20)
    app.writes_fail = True
    app.join("a2", instance_id="i")
    app.writes_fail = False
    app.wait(24)
    assert "a" in app.group.members
    app.wait(2)
    assert app.group.state_name == "Empty"
