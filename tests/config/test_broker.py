"""A broker's static settings: kwire's profile, Kafka's names, errors that help."""

import logging

import pytest

from kwire.config import BROKER, BrokerConfig, ConfigError, parse_properties, settings
from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.config.broker import Listener

SERVER_PROPERTIES = """
# What Kafka ships as config/server.properties, in short.
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
offsets.topic.replication.factor=1
log.retention.hours=168
log.segment.bytes=1073741824
"""


def test_the_profile_is_for_one_broker():
    """Without any setting kwire runs alone: no replicas, no delay, no fixed place on the disk."""
    config = BrokerConfig.load({})
    assert config["offsets.topic.replication.factor"] == 1
    assert config["transaction.state.log.min.isr"] == 1
    assert config["group.initial.rebalance.delay.ms"] == 0
    assert config["node.id"] == config["broker.id"] == 1
    assert config["log.dirs"] == ["./kwire-data"]
    assert config.listeners() == [Listener("PLAINTEXT", "127.0.0.1", 9092)]
    assert config.advertised_listeners() == []


@pytest.mark.parametrize(
    "name", ["create.topic.policy.class.name", "alter.config.policy.class.name"]
)
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("org.example.Policy", "must be module:function, a function of Python"),
        ("no.such.module:check", "can't be imported: No module named 'no'"),
        ("os:nothing", "can't be imported"),
        ("os:name", "name is no function"),
    ],
)
def test_a_policy_that_can_not_be_asked_is_refused(name, text, problem):
    """The broker doesn't start without what the operator counts on."""
    with pytest.raises(ConfigError, match=problem) as refused:
        BrokerConfig.load({name: text})
    assert name in str(refused.value)


REGISTRY = "kwire.http.schema.registry.url"


def test_every_default_is_of_its_own_type():
    """Every setting of the table can be read, and the ones that aren't given have defaults."""
    config = BrokerConfig.load({})
    own = [name for name in config if name.startswith("kwire.")]
    assert len(config) == len(settings(BROKER)) == 379 + len(own)
    assert config["log.cleaner.min.cleanable.ratio"] == 0.5
    assert config["log.retention.ms"] is None
    assert config["auto.create.topics.enable"] is True


def test_kafkas_own_file_is_understood(caplog):
    """The stock server.properties works as it is; the controller's listener is left out, and what
    is for several brokers is named."""
    config = BrokerConfig.load(parse_properties(SERVER_PROPERTIES))
    assert config.listeners() == [Listener("PLAINTEXT", "", 9092)]
    assert config.advertised_listeners()[0] == Listener("PLAINTEXT", "localhost", 9092)
    assert config.given["log.retention.hours"] == "168"
    [warning] = [record.getMessage() for record in caplog.records]
    assert "controller.quorum.bootstrap.servers=localhost:9093" in warning


def test_an_unknown_name_warns_with_a_hint(caplog):
    """A typo is not silent, and not fatal."""
    with caplog.at_level(logging.WARNING):
        config = BrokerConfig.load({"nm.partitions": "3"}, {"nm.partitions": "a file, line 2: "})
    assert [record.getMessage() for record in caplog.records] == [
        "a file, line 2: setting nm.partitions is unknown and ignored; did you mean num.partitions?"
    ]
    assert config["num.partitions"] == 1


def test_an_unknown_name_warns_although_a_value_is_wrong(caplog):
    """All that is wrong is told at once."""
    with caplog.at_level(logging.WARNING), pytest.raises(ConfigError, match="whole number"):
        BrokerConfig.load({"num.partition": "4", "num.partitions": "abc"})
    assert "setting num.partition is unknown" in caplog.text


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"num.partitions": "0"}, "num.partitions: must be at least 1"),
        ({"num.partitions": "many"}, "num.partitions: must be a whole number of type int"),
        ({"listeners": "PLAINTEXT:9092"}, "must be NAME://host:port"),
        ({"listeners": "PLAINTEXT://:"}, "must be NAME://host:port"),
        ({"listeners": "PLAINTEXT://[::1]"}, "must be NAME://host:port"),
        ({"listeners": "PLAINTEXT://:70000"}, "70000 must be a number from 0 to 65535"),
        ({"listeners": "PLAINTEXT://:-1"}, "-1 must be a number from 0 to 65535"),
        ({"listeners": "PLAINTEXT://:abc"}, "abc must be a number from 0 to 65535"),
        (
            {"listener.security.protocol.map": "PLAINTEXT:SASL_SSL"},
            "the listener PLAINTEXT is SASL_SSL and needs a certificate",
        ),
        ({"listeners": "SSL://:9092"}, "the listener SSL is SSL and needs a certificate"),
        ({"listeners": "MINE://:9092"}, "must be in listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "different name"),
        ({"listeners": "CONTROLLER://:1"}, "must name a listener for clients"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "must name hosts that clients"),
        ({"listeners": "PLAINTEXT://a..b:9092"}, "value a..b for configuration listeners: between"),
        ({"advertised.listeners": f"PLAINTEXT://{'a' * 64}.org:1"}, "listeners: between the dots"),
        ({"advertised.listeners": "PLAINTEXT://\xe4..b:1"}, "are 1 to 63 characters"),
        ({"node.id": "1", "broker.id": "2"}, "must equal node.id"),
        ({"process.roles": "controller"}, "must contain broker"),
        ({"authorizer.class.name": "x.Y"}, "must be org.apache.kafka.metadata.authorizer"),
        (
            {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:a;admin"},
            "must name principals as in User:admin",
        ),
        ({"log.retention.ms": "0"}, "must be at least 1"),
        ({REGISTRY: "http://etl:geheim@registry:8081"}, "value .hidden. .* must not have a login"),
        ({REGISTRY: "registry:8081"}, "must be an address like http://registry.example.org:8081"),
        ({"log.dirs": ""}, "must name a directory"),
    ],
)
def test_a_bad_value_says_what_is_allowed(properties, problem):
    """A broker doesn't start with a value it can't honor, and says which one."""
    with pytest.raises(ConfigError, match=problem):
        BrokerConfig.load(properties)


def test_two_listeners_of_ones_own():
    """Listeners have any name that the map gives a protocol, in any case."""
    config = BrokerConfig.load(
        {
            "listeners": "Inside://127.0.0.1:0,OUTSIDE://[::1]:0",
            "listener.security.protocol.map": "inside:PLAINTEXT,OUTSIDE:plaintext",
        }
    )
    assert config.listeners()[1] == Listener("OUTSIDE", "::1", 0)


def test_names_of_hosts_that_can_be_asked_for():
    """With a dot at the end, with letters beyond ASCII, and as long as DNS has them."""
    for host in ("kwire.example.org.", "b\xfccher.example", f"{'a' * 63}.org", "[fe80::1%eth0]"):
        config = BrokerConfig.load({"advertised.listeners": f"PLAINTEXT://{host}:9092"})
        assert config.advertised_listeners()[0].host == host.strip("[]")


def test_old_names_still_count():
    """broker.id is node.id, and log.dir stands in for log.dirs."""
    config = BrokerConfig.load({"broker.id": "7", "log.dir": "/data"})
    assert config["node.id"] == 7
    assert config["log.dirs"] == ["/data"]
    assert BrokerConfig.load({"log.dirs": "/a", "log.dir": "/b"})["log.dirs"] == ["/a"]


def test_the_same_settings_in_another_place():
    """As if they had been loaded with it; the settings before are as they were."""
    before = BrokerConfig.load({"node.id": "7", "log.dirs": "/a"})
    moved = before.changed({"log.dirs": "/b", "listeners": "PLAINTEXT://127.0.0.1:1234"})
    listeners = {"log.dirs": "/b", "listeners": "PLAINTEXT://127.0.0.1:1234"}
    loaded = BrokerConfig.load({"node.id": "7", **listeners})
    assert (dict(moved), moved.given) == (dict(loaded), loaded.given)
    assert before["log.dirs"] == ["/a"]


@pytest.mark.parametrize("topic", ["offsets.topic", "transaction.state.log"])
def test_segments_of_the_coordinators_topics_have_a_least_size(topic):
    """Less is refused at once: a topic can't have it, so that nobody would have a coordinator."""
    name = f"{topic}.segment.bytes"
    assert BrokerConfig.load({name: "1048576"})[name] == 1_048_576
    with pytest.raises(ConfigError, match=f"{name}: must be at least 1048576"):
        BrokerConfig.load({name: "1048575"})
