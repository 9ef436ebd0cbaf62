"""What is said of a streams group whose members don't have what they are to have."""

from kwire.coordinator.streams.problems import SHOWN, problems_of
from tests.coordinator.streams.conftest import CHANGELOG, SOURCE, topology


def test_a_group_without_problems(app):
    app.join("a")
    assert problems_of(app.group) == []


def test_topics_that_are_missing(app):
    app.set_topics({})
    app.join("a")
    [said] = problems_of(app.group)
    assert said.startswith("MISSING_SOURCE_TOPICS: Source topics source are missing: create them")
    app.set_topics({SOURCE: 2})
    app.beat("a")
    assert problems_of(app.group) == []


def test_internal_topics_that_are_missing_or_wrong(app):
    app.join("a", topology=topology(stateful=True))
    [said] = problems_of(app.group)
    assert said.startswith(f"MISSING_INTERNAL_TOPICS: Internal topics are missing: {CHANGELOG}")
    app.set_topics({SOURCE: 2, CHANGELOG: 3})
    app.beat("a")
    [said] = problems_of(app.group)
    assert said.startswith(f"INCORRECTLY_PARTITIONED_TOPICS: Existing topic {CHANGELOG} has")


def test_a_member_that_has_to_give_tasks_back_and_one_that_waits(app):
    app.join("a")
    app.join("b")
    app.beat("a")
    first, second = problems_of(app.group)
    given_back = [f"0_{p}" for p in range(4) if p not in app.active["a"]]
    assert first == f"a has yet to give back {', '.join(given_back)}"
    waited_for = ", ".join(f"{task} of process a" for task in given_back)
    assert second == f"b waits for {waited_for}"


def test_an_application_that_is_to_end(app):
    app.join("a")
    app.beat("a", shutdown_application=True)
    [said] = problems_of(app.group)
    assert said.startswith("SHUTDOWN_APPLICATION: a has asked all members to end")


def test_a_member_with_an_older_topology(app):
    app.join("a", topology=topology(epoch=2))
    app.join("b", topology=topology(epoch=1))
    app.settle("a", "b")
    [said] = problems_of(app.group)
    assert said.startswith("STALE_TOPOLOGY: b run an older topology than the group has")


def test_a_group_that_another_broker_coordinates_now(app):
    app.join("a")
    app.load()
    [said] = problems_of(app.group)
    assert said == "no member has sent a heartbeat since this broker coordinates the group"


def test_a_few_of_many_are_named(app):
    app.set_topics({SOURCE: 60})
    app.join("a")
    app.join("b")
    app.beat("a")
    first, _ = problems_of(app.group)
    assert first.endswith(f"and {30 - SHOWN} more")
