"""The address of a metadata store is understood, or its mistake is told in one line."""

import pytest

from kwire.config import BrokerConfig
from kwire.config.metadata_store import EtcdAddress, parse_store
from kwire.config.settings import ConfigError

SETTING = "kwire.metadata.store"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("etcd://h", EtcdAddress(("h:2379",), "kwire", False)),
        ("etcd://h1:1,h2:2/a/b", EtcdAddress(("h1:1", "h2:2"), "a/b", False)),
        ("etcds://h1, h2/p/", EtcdAddress(("h1:2379", "h2:2379"), "p", True)),
        ("etcd://[::1]:23,[fe80::2]", EtcdAddress(("[::1]:23", "[fe80::2]:2379"), "kwire", False)),
    ],
)
def test_an_address(text, address):
    """Port and prefix may be left out."""
    assert parse_store(text) == address


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must look like etcd://host1:2379"),
        ("h1:2379", "must look like etcd://host1:2379"),
        ("zk://h1", "must look like etcd://host1:2379"),
        ("etcd:///p", "must look like etcd://host1:2379"),
        ("etcd://h1,,h2", "an empty name is no host:port"),
        ("etcd://h1:port", "h1:port is no host:port"),
        ("etcd://h1:70000", "the port 70000 must be a number from 1 to 65535"),
        ("etcd://h1:1,h1:1", "must name each host once"),
        ("etcd://h1/a b", "the prefix may have letters"),
        ("etcd://h1/a//b", "the prefix may have letters"),
    ],
)
def test_a_mistake_in_an_address(text, says):
    """The text names the setting, the value and what is wrong."""
    with pytest.raises(ConfigError, match=SETTING) as refused:
        parse_store(text)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_password_in_an_address_is_refused_and_not_shown():
    """DescribeConfigs shows addresses to everybody."""
    with pytest.raises(ConfigError, match=rf"{SETTING}\.password") as refused:
        parse_store("etcd://user:secret@h1")
    assert "secret" not in str(refused.value)


def test_a_broker_with_a_store_needs_addresses_that_others_reach():
    """A listener on every interface has none of its own."""
    store = {SETTING: "etcd://h1"}
    everywhere = {"listeners": "PLAINTEXT://:9092"}
    with pytest.raises(ConfigError, match=r"advertised\.listeners: must have an address"):
        BrokerConfig.load({**store, **everywhere})
    advertised = {"advertised.listeners": "PLAINTEXT://kwire1:9092"}
    config = BrokerConfig.load({**store, **everywhere, **advertised})
    assert config.metadata_store() == parse_store("etcd://h1")
    assert BrokerConfig.load(everywhere).metadata_store() is None


def test_certificate_and_key_need_each_other():
    """One alone is a mistake."""
    given = {SETTING: "etcds://h1", f"{SETTING}.tls.key.file": "key.pem"}
    with pytest.raises(ConfigError, match=r"tls\.key\.file: certificate and key need each other"):
        BrokerConfig.load(given)
