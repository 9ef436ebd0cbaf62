"""A streams group goes from Apache Kafka to kwire and back, in the records of one directory."""

from pathlib import Path

from compat_tests import exchange
from compat_tests.apache_kafka import ApacheKafka
from compat_tests.raw_client import RawClient
from compat_tests.raw_routes import GROUP, Home, address_of
from compat_tests.test_streams_heartbeats import (
    DELAYED,
    NO_INTERNAL,
    PARTITIONS,
    Application,
    refusal,
)
from kwire.protocol.messages.streams_group_heartbeat import Endpoint, KeyValue
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

SETTINGS = exchange.SETTINGS | {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.num.standby.replicas": "1",
}
APP, SOURCE, CHANGELOG = "moving", "source", "moving-store-changelog"


def goes_on(app: Application, bootstrap: str) -> None:
    """The members go on until they share the tasks, and all is as it was."""
    with RawClient(bootstrap) as raw:
        app.raw = raw
        wait_until(lambda: address_of(Home(GROUP, APP), raw.ask) is not None)
        had = {member_id: app.has(member_id) for member_id in app.epochs}

        def shares() -> bool:
            answers = [app.beat("a", instance_id="i"), app.beat("b")]
            if any(answer.error_code for answer in answers):
                return False
            seen = {status.status_code for answer in answers for status in answer.status}
            assert seen <= {NO_INTERNAL, DELAYED}
            return app.describe().group_state == "Stable"

        wait_until(shares)
        group = app.describe()
        assert {m.member_id for m in group.members} == {"a", "b"}
        assert app.has("a") == app.has("b", "standby_tasks")
        assert app.has("b") == app.has("a", "standby_tasks")
        assert sorted(app.has("a") + app.has("b")) == list(range(PARTITIONS))
        if any(had.values()):
            assert had == {member_id: app.has(member_id) for member_id in app.epochs}


def test_members_go_on_at_another_broker(tmp_path: Path) -> None:
    """They keep their epochs and tasks: at kwire, and at Kafka again after kwire has written."""
    with ApacheKafka(tmp_path, SETTINGS) as kafka:
        create_topics(kafka.bootstrap, SOURCE, partitions=PARTITIONS)
        with RawClient(kafka.bootstrap) as raw:
            wait_until(lambda: address_of(Home(GROUP, APP), raw.ask) is not None)
            app = Application(raw, APP, SOURCE)
            tags = [KeyValue(key="zone", value="z")]
            endpoint = Endpoint(host="h", port=1)
            topology = app.topology(changelog=CHANGELOG)

            def joins() -> bool:
                first = app.join("a", topology=topology, instance_id="i", client_tags=tags)
                return refusal(first)[0] == "NONE"

            wait_until(joins)
            app.join("b", topology=topology, user_endpoint=endpoint, rack_id="r")
        goes_on(app, kafka.bootstrap)
    with BrokerProcess(tmp_path / "logs", SETTINGS) as kwire:
        goes_on(app, kwire.bootstrap)
        with RawClient(kwire.bootstrap) as raw:
            app.raw = raw
            app.leave("a", member_epoch=-2, instance_id="i")
    assert "bug in" not in kwire.log()
    with ApacheKafka(tmp_path, SETTINGS) as kafka, RawClient(kafka.bootstrap) as raw:
        app.raw = raw
        wait_until(lambda: address_of(Home(GROUP, APP), raw.ask) is not None)
        held = app.has("a")

        def is_back() -> bool:
            tasks = app.tasks["a"]
            back = app.join("a", topology=topology, instance_id="i")
            if back.error_code:
                app.tasks["a"] = tasks
            return not back.error_code

        wait_until(is_back)
        assert app.has("a") == held
