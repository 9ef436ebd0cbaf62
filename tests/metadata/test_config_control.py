"""Dynamic configs are altered and refused as Kafka does it."""

import pytest

from kwire.config import BrokerConfig
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import TopicCreated, apply
from kwire.metadata.config_control import (
    Alteration,
    Operation,
    alter_configs,
    replace_configs,
    resource_type,
)
from kwire.metadata.controller import NewTopic, create_topic
from kwire.metadata.image import ConfigResourceType, PartitionImage

TOPIC = (ConfigResourceType.TOPIC, "t")
BROKER = (ConfigResourceType.BROKER, "1")
ALL_BROKERS = (ConfigResourceType.BROKER, "")
GROUP = (ConfigResourceType.GROUP, "g")
METRICS = (ConfigResourceType.CLIENT_METRICS, "m")
SETTINGS = BrokerConfig.load({})

SET, DELETE, APPEND, SUBTRACT = Operation


@pytest.fixture
def image(image_of, random):
    """One broker, and the topic ``t``."""
    image = image_of()
    return apply(image, create_topic(image, NewTopic("t", 1, 1), random), 2)


def _altered(image, resource, *alterations):
    changes = alter_configs(image, resource, [Alteration(*a) for a in alterations], SETTINGS)
    return apply(image, changes, image.revision + 1)


@pytest.mark.parametrize("resource", [TOPIC, BROKER, ALL_BROKERS, GROUP, METRICS])
def test_set_and_delete(image, resource):
    """What is set is there, what is deleted is as if it had never been set."""
    name, value = {
        TOPIC: ("retention.ms", "5"),
        GROUP: ("consumer.session.timeout.ms", "46000"),
        METRICS: ("interval.ms", "1000"),
    }.get(resource, ("message.max.bytes", "2000"))
    after = _altered(image, resource, (name, SET, value))
    assert after.config(*resource) == {name: value}
    for ignored in (None, "what a client left there"):
        assert _altered(after, resource, (name, DELETE, ignored)).configs == {}
    assert _altered(after, resource, (name, SET, value)).configs == after.configs


def test_lists_grow_and_shrink(image):
    """APPEND and SUBTRACT count from the own value, or from the default while there is none."""
    name = "cleanup.policy"
    both = _altered(image, TOPIC, (name, APPEND, "compact"))
    assert both.config(*TOPIC) == {name: "delete,compact"}
    assert _altered(both, TOPIC, (name, APPEND, "compact")).config(*TOPIC) == both.config(*TOPIC)
    one = _altered(both, TOPIC, (name, SUBTRACT, "delete"))
    assert one.config(*TOPIC) == {name: "compact"}


def test_replacing_takes_away_what_is_not_named(image):
    """AlterConfigs says all that shall be set."""
    before = _altered(image, TOPIC, ("retention.ms", SET, "5"), ("segment.ms", SET, "6"))
    wanted = [("segment.ms", "7"), ("preallocate", "true")]
    after = apply(before, replace_configs(before, TOPIC, wanted, SETTINGS), 9)
    assert after.config(*TOPIC) == dict(wanted)


@pytest.mark.parametrize(
    ("resource", "alterations", "code"),
    [
        (TOPIC, [("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        (TOPIC, [("foo", SET, "1")], ErrorCode.INVALID_CONFIG),
        (TOPIC, [("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        (TOPIC, [("foo", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        (TOPIC, [("cleanup.policy", APPEND, "foo")], ErrorCode.INVALID_CONFIG),
        (TOPIC, [("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        (TOPIC, [("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST),
        (
            TOPIC,
            [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
        ),
        ((ConfigResourceType.TOPIC, "n"), [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((ConfigResourceType.TOPIC, ""), [], ErrorCode.INVALID_REQUEST),
        ((ConfigResourceType.TOPIC, "a b"), [], ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((ConfigResourceType.GROUP, ""), [], ErrorCode.INVALID_REQUEST),
        ((ConfigResourceType.BROKER, "7"), [], ErrorCode.INVALID_REQUEST),
        (BROKER, [("node.id", SET, "3")], ErrorCode.INVALID_REQUEST),
        (BROKER, [("num.io.threads", SET, "0")], ErrorCode.INVALID_REQUEST),
        (BROKER, [("advertised.listeners", SET, "A://b:1")], ErrorCode.INVALID_REQUEST),
        (BROKER, [("listeners", SET, "A://b:1")], ErrorCode.INVALID_REQUEST),
        (BROKER, [("ssl.keystore.password", SET, "x")], ErrorCode.INVALID_REQUEST),
        (BROKER, [("listener.security.protocol.map", SET, "A:SSL")], ErrorCode.INVALID_REQUEST),
        (BROKER, [("listener.name.a.max.connections", SET, "x")], ErrorCode.INVALID_REQUEST),
        (BROKER, [("sasl.login.refresh.buffer.seconds", SET, "x")], ErrorCode.INVALID_REQUEST),
        (BROKER, [("ssl.engine.factory.class", SET, "a.B")], ErrorCode.INVALID_REQUEST),
        (BROKER, [("cordoned.log.dirs", SET, "/nowhere")], ErrorCode.INVALID_REQUEST),
        (
            ALL_BROKERS,
            [("listener.name.a.ssl.client.auth", SET, "none")],
            ErrorCode.INVALID_REQUEST,
        ),
        (ALL_BROKERS, [("sasl.enabled.mechanisms", SET, "PLAIN")], ErrorCode.INVALID_REQUEST),
        (GROUP, [("foo", SET, "1")], ErrorCode.INVALID_CONFIG),
        (GROUP, [("consumer.session.timeout.ms", SET, "1")], ErrorCode.INVALID_CONFIG),
        (GROUP, [("consumer.heartbeat.interval.ms", SET, "90000")], ErrorCode.INVALID_CONFIG),
        (GROUP, [("streams.num.standby.replicas", SET, "3")], ErrorCode.INVALID_CONFIG),
        (GROUP, [("share.auto.offset.reset", SET, "foo")], ErrorCode.INVALID_CONFIG),
        (METRICS, [("match", SET, "foo")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_is_refused(image, resource, alterations, code):
    """Each refusal has Kafka's code and says why, and nothing changes."""
    with pytest.raises(KafkaError) as caught:
        _altered(image, resource, *alterations)
    assert caught.value.code is code
    assert caught.value.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.kerberos.min.time.before.relogin", "58000"),
        ("ssl.cipher.suites", "a,b"),
        ("ssl.engine.factory.class", ""),
        ("listener.name.external.ssl.keystore.password", "secret"),
        ("listener.name.external.max.connections", "77"),
        ("listener.name.external.whatever", "x"),
        ("cordoned.log.dirs", str(SETTINGS["log.dirs"][0])),
        ("listeners", ",".join(SETTINGS["listeners"])),
    ],
)
def test_configs_that_nothing_follows_are_kept(image, name, value):
    """Kafka takes these while it runs, and librdkafka's own tests set one of them."""
    assert _altered(image, BROKER, (name, SET, value)).config(*BROKER) == {name: value}


SECURED = BrokerConfig.load(
    {
        "listeners": "SASL_PLAINTEXT://:9092,PLAIN://:9093",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,PLAIN:PLAINTEXT",
        "sasl.jaas.config": 'x.P required user_a="b";',
        "sasl.enabled.mechanisms": "PLAIN",
    }
)


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config",
        "listener.name.sasl_plaintext.sasl.jaas.config",
        "listener.name.sasl_plaintext.connections.max.reauth.ms",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
    ],
)
def test_logins_of_a_listener_that_there_is_cannot_change(image, name):
    """kwire reads them when it starts; what it doesn't follow it doesn't take."""
    value = "1000" if name.endswith("ms") else "PLAIN"
    with pytest.raises(KafkaError, match="logins of an existing listener") as caught:
        alter_configs(image, BROKER, [Alteration(name, SET, value)], SECURED)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert _altered(image, BROKER, (name, SET, value)).config(*BROKER) == {name: value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("listener.name.plain.sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.external.sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.sasl_plaintext.max.connections", "77"),
        ("sasl.kerberos.min.time.before.relogin", "58000"),
    ],
)
def test_other_configs_beside_logins_are_taken(image, name, value):
    """Those of other listeners, limits of connections, and what librdkafka's tests set."""
    assert alter_configs(image, BROKER, [Alteration(name, SET, value)], SECURED)


@pytest.mark.parametrize("interval_ms", ["50000", "45000"])
def test_a_session_outlives_its_heartbeats(image, interval_ms):
    """The values are checked together, also with those of the broker: its sessions take 45 s."""
    settings = BrokerConfig.load({"group.consumer.max.heartbeat.interval.ms": "60000"})
    alteration = Alteration("consumer.heartbeat.interval.ms", SET, interval_ms)
    with pytest.raises(KafkaError, match=r"session\.timeout\.ms must be"):
        alter_configs(image, GROUP, [alteration], settings)


@pytest.mark.parametrize(
    ("timeout_ms", "problem"),
    [
        ("44999", r"must be greater than or equal to .*\(45000\)"),
        ("45000", ""),
        ("60000", ""),
        ("60001", r"must be less than or equal to .*\(60000\)"),
    ],
)
def test_a_groups_config_may_have_the_least_and_the_most_value(image, timeout_ms, problem):
    """The broker's limits belong to what is allowed."""
    alteration = Alteration("consumer.session.timeout.ms", SET, timeout_ms)
    if not problem:
        assert alter_configs(image, GROUP, [alteration], SETTINGS)
        return
    with pytest.raises(KafkaError, match=problem):
        alter_configs(image, GROUP, [alteration], SETTINGS)


def test_deleting_what_is_not_set_changes_nothing(image):
    """Not even a name that nobody knows is an error then, as in Kafka."""
    assert alter_configs(image, TOPIC, [Alteration("foo", DELETE, None)], SETTINGS) == []


def test_brokers_take_names_they_do_not_know(image):
    """Kafka keeps them for plugins; throttles are known only as dynamic configs."""
    after = _altered(
        image, BROKER, ("foo.bar", SET, "x"), ("leader.replication.throttled.rate", SET, "10")
    )
    assert after.config(*BROKER)["foo.bar"] == "x"


@pytest.mark.parametrize("resource", [TOPIC, ALL_BROKERS])
def test_with_fewer_replicas_needed_nobody_else_is_eligible(image, resource):
    """The leader alone may commit records then. A partition without a leader keeps who may lead."""
    name = "min.insync.replicas"
    image = _altered(image, resource, (name, SET, "2"))
    led = PartitionImage(1, 3, (1, 2), (1,), 4, elr=(2,))
    waiting = led._replace(leader=-1, isr=(), elr=(1, 2))
    topic = image.topics_by_name["t"]._replace(partitions=(led, waiting))
    image = apply(image, [TopicCreated(topic)], 5)
    lower = _altered(image, resource, (name, SET, "1"))
    expected = (led._replace(elr=(), partition_epoch=5), waiting)
    assert lower.topics_by_name["t"].partitions == expected
    assert _altered(image, resource, (name, DELETE, None)).partition("t", 0).elr == ()
    higher = _altered(image, resource, (name, SET, "3"))
    assert higher.topics_by_name["t"].partitions == (led, waiting)


def test_resource_types():
    """Only what has stored configs is one."""
    assert resource_type(32) is ConfigResourceType.GROUP
    for number in (0, 1, 8, 99):
        with pytest.raises(KafkaError, match="Unknown resource type"):
            resource_type(number)


@pytest.mark.parametrize(
    "configs",
    [[("segment.ms", None)], [("segment.ms", "1"), ("segment.ms", "2")]],
)
def test_replacing_needs_values_once(image, configs):
    """AlterConfigs has no way to delete, and no order."""
    with pytest.raises(KafkaError) as caught:
        replace_configs(image, TOPIC, configs, SETTINGS)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
