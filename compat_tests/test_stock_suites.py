"""What the test suites of stock clients and tools count on: librdkafka's, Kafka's own, others'."""

from collections.abc import Callable

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from compat_tests.clients import QUIET, READ_TIMEOUT_S
from compat_tests.conftest import Names
from compat_tests.raw_client import RawClient
from compat_tests.raw_members import RawMember
from kwire.errors import ErrorCode
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

RELOGIN = "sasl.kerberos.min.time.before.relogin"
DELETE_VERSION, METADATA_VERSION = 6, 12


def describe(raw: RawClient, topic: str, version: int = METADATA_VERSION) -> str:
    """The error of a topic in an answer to Metadata, where its first use may create it."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True
    )
    [described] = raw.ask(request, version).topics
    assert bool(described.partitions) == (described.error_code == ErrorCode.NONE)
    return ErrorCode(described.error_code).name


def is_there(raw: RawClient, topic: str) -> Callable[[], bool]:
    """Whether a topic is described without an error."""
    return lambda: describe(raw, topic) == "NONE"


@pytest.mark.parametrize("version", [0, 1, 4, 8, 12])
def test_the_first_use_of_a_topic_is_an_error(bootstrap: str, names: Names, version: int) -> None:
    """The topic is created, and the next request finds it, as in Kafka's MetadataRequestTest."""
    topic = names.topic()
    with RawClient(bootstrap) as raw:
        assert describe(raw, topic, version) == "UNKNOWN_TOPIC_OR_PARTITION"
        wait_until(is_there(raw, topic), timeout_s=30, what=topic)


def test_a_topic_that_was_deleted_is_unknown_first(bootstrap: str, names: Names) -> None:
    """The request that creates it anew says that it is gone."""
    topic = names.topic()
    create_topics(bootstrap, topic, partitions=3)
    with RawClient(bootstrap) as raw:
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
        assert raw.ask(gone, DELETE_VERSION).responses[0].error_code == ErrorCode.NONE
        seen = ["NONE"]
        while seen[-1] == "NONE":  # Apache Kafka's broker learns of the deletion a moment later
            seen.append(describe(raw, topic))
        assert seen[-1] == "UNKNOWN_TOPIC_OR_PARTITION"
        wait_until(is_there(raw, topic), timeout_s=30, what=topic)


@pytest.mark.parametrize("name", ["a topic", "t,u", "."])
def test_a_topic_that_may_not_exist(bootstrap: str, name: str) -> None:
    """Its name is refused, by its first use too."""
    with RawClient(bootstrap) as raw:
        assert describe(raw, name) == "INVALID_TOPIC_EXCEPTION"


def test_a_topic_that_collides_with_another(bootstrap: str, names: Names) -> None:
    """It stays unknown: what the controller says against it is for the broker's log."""
    topic = names.topic("a.b")
    create_topics(bootstrap, topic, partitions=1)
    with RawClient(bootstrap) as raw:
        for _ in range(3):
            assert describe(raw, topic.replace(".", "_")) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_leader_that_joins_again_begins_a_generation(bootstrap: str, names: Names) -> None:
    """Also without a change; a follower that does so keeps the generation it is in."""
    group = names.group()
    leader, follower = RawMember(bootstrap, group), RawMember(bootstrap, group)
    leader.become_stable()
    assert leader.generation == 1
    leader.join(member_id=leader.member_id)
    assert leader.generation == 2
    leader.sync()
    follower.join()
    follower.begin_to_join(member_id=follower.member_id)
    wait_until(lambda: leader.beat() == ErrorCode.REBALANCE_IN_PROGRESS, what="a rebalance")
    leader.join(member_id=leader.member_id)
    follower.joined()
    assert (leader.generation, follower.generation) == (3, 3)
    leader.sync()
    assert follower.sync(assignments=[]).error_code == ErrorCode.NONE
    follower.join(member_id=follower.member_id)
    assert follower.generation == 3
    leader.begin_to_join(member_id=leader.member_id)
    wait_until(lambda: follower.beat() == ErrorCode.REBALANCE_IN_PROGRESS, what="a rebalance")
    follower.join(member_id=follower.member_id)
    leader.joined()
    assert (leader.generation, follower.generation) == (4, 4)
    for member in (leader, follower):
        member.leave()
        member.raw.close()


def alter(raw: RawClient, kind: int, resource: str, **configs: str | None) -> str:
    """Set configs of a resource, or delete those that are None; the error."""
    asked = AlterConfigsResource(
        resource_type=kind,
        resource_name=resource,
        configs=[
            AlterableConfig(name=name, config_operation=int(value is None), value=value)
            for name, value in configs.items()
        ],
    )
    [answer] = raw.ask(IncrementalAlterConfigsRequest(resources=[asked]), 1).responses
    return ErrorCode(answer.error_code).name


def test_a_brokers_config_that_librdkafka_sets(bootstrap: str) -> None:
    """Its 0081-admin alters Kerberos' time for a broker, without Kerberos, and reads it again."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    node = str(next(iter(admin.list_topics(timeout=READ_TIMEOUT_S).brokers)))

    def altered(operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(RELOGIN, "58000", incremental_operation=operation)
        resource = ConfigResource(ResourceType.BROKER, node, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(READ_TIMEOUT_S)

    def value() -> str:
        resource = ConfigResource(ResourceType.BROKER, node)
        described = admin.describe_configs([resource])[resource].result(READ_TIMEOUT_S)
        return str(described[RELOGIN].value)

    altered(AlterConfigOpType.SET)
    wait_until(lambda: value() == "58000", timeout_s=30, what="the value")
    altered(AlterConfigOpType.DELETE)
    wait_until(lambda: value() == "60000", timeout_s=30, what="the default")
    with RawClient(bootstrap) as raw:
        broker = ConfigResource.Type.BROKER.value
        assert alter(raw, broker, node, **{RELOGIN: "soon"}) == "INVALID_REQUEST"
        assert alter(raw, broker, "", **{RELOGIN: "58000"}) == "INVALID_REQUEST"
        assert alter(raw, broker, node, **{"ssl.keystore.type": "PEM"}) == "INVALID_REQUEST"
        assert alter(raw, broker, node, **{"ssl.engine.factory.class": "a.B"}) == "INVALID_REQUEST"
        assert alter(raw, broker, node, **{"cordoned.log.dirs": "/a"}) == "INVALID_REQUEST"


def test_configs_of_a_listener(bootstrap: str) -> None:
    """Kafka's ConfigCommandIntegrationTest sets and reads some, for a listener that isn't there."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    node = str(next(iter(admin.list_topics(timeout=READ_TIMEOUT_S).brokers)))
    prefix = "listener.name.internal.ssl.truststore"
    wanted = {f"{prefix}.type": "PKCS12", f"{prefix}.location": "/tmp/test.jks"}
    secret = {f"{prefix}.password": "password"}

    def described() -> dict[str, str | None]:
        resource = ConfigResource(ResourceType.BROKER, node)
        found = admin.describe_configs([resource])[resource].result(READ_TIMEOUT_S)
        return {name: found[name].value for name in found if name.startswith(prefix)}

    broker = ConfigResource.Type.BROKER.value
    with RawClient(bootstrap) as raw:
        assert alter(raw, broker, node, **wanted, **secret) == "NONE"
        hidden = dict.fromkeys(secret)
        wait_until(lambda: described() == wanted | hidden, timeout_s=30, what="the configs")
        assert alter(raw, broker, "", **wanted) == "INVALID_REQUEST"
        nothing = dict.fromkeys([*wanted, *secret])
        assert alter(raw, broker, node, **nothing) == "NONE"
        wait_until(lambda: not described(), timeout_s=30, what="them to be gone")


def test_configs_of_kinds_that_may_not_be_served(bootstrap: str, names: Names) -> None:
    """librdkafka's tests of share groups, and Kafka's own of client metrics, set some first."""
    group_type, metrics_type = 32, 16
    with RawClient(bootstrap) as raw:
        share = {"share.auto.offset.reset": "earliest"}
        assert alter(raw, group_type, names.group(), **share) == "NONE"
        assert alter(raw, metrics_type, names.group(), **{"interval.ms": "5000"}) == "NONE"
