"""Listeners with protocols, and settings of their own."""

import pytest

from kwire.config.broker import BrokerConfig
from kwire.config.listener_settings import inter_broker_listener
from kwire.config.settings import ConfigError

SASL = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.outside.plain.sasl.jaas.config": 'x.PlainLoginModule required user_a="hush";',
}
TLS = {"listeners": "SSL://:9093", "ssl.keystore.type": "PEM", "ssl.keystore.location": "/x.pem"}


def test_a_listeners_own_settings_count_first():
    """Those of a mechanism before those of the listener, and these before the broker's."""
    config = BrokerConfig.load(
        {
            **SASL,
            "connections.max.reauth.ms": "1",
            "listener.name.outside.connections.max.reauth.ms": "2",
            "listener.name.outside.plain.connections.max.reauth.ms": "3",
        }
    )
    outside, inside = config.of_listener("OUTSIDE"), config.of_listener("INSIDE")
    name = "connections.max.reauth.ms"
    assert (outside.protocol, outside.is_sasl, outside.is_tls) == ("SASL_PLAINTEXT", True, False)
    assert (config[name], inside[name], outside[name]) == (1, 1, 2)
    assert outside.of_mechanism("PLAIN")[name] == 3
    assert outside.of_mechanism("SCRAM-SHA-256")[name] == 2
    assert outside.of_mechanism("PLAIN").full_name(name) == f"listener.name.outside.plain.{name}"
    assert outside.of_mechanism("PLAIN").text("sasl.jaas.config").endswith('"hush";')
    assert config.secured_listeners == ["OUTSIDE"]


def test_dynamic_configs_of_a_listener_count_before_the_file():
    """A certificate is renewed so."""
    config = BrokerConfig.load(TLS)
    renewed = {"listener.name.ssl.ssl.keystore.location": "/new.pem"}
    assert config.of_listener("SSL", renewed)["ssl.keystore.location"] == "/new.pem"
    assert config.of_listener("SSL")["ssl.keystore.location"] == "/x.pem"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({**SASL, "sasl.enabled.mechanisms": "NTLM"}, "NTLM is not served; name some of PLAIN"),
        ({**SASL, "sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms: must name some of"),
        ({"listeners": "SSL://:9093"}, "listener.name.ssl.ssl.keystore.location: the listener SSL"),
        ({**TLS, "ssl.keystore.type": "BKS"}, "ssl.keystore.type: must be one of PEM, PKCS12, JKS"),
        ({**TLS, "ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.2 and TLSv1.3 only"),
        (
            {**TLS, "ssl.engine.factory.class": "x.Y"},
            "ssl.engine.factory.class: kwire loads no Java",
        ),
        ({**TLS, "principal.builder.class": "x.Y"}, "principal.builder.class: kwire loads no Java"),
        (
            {**SASL, "listener.name.outside.plain.sasl.server.callback.handler.class": "x.Y"},
            "listener.name.outside.plain.sasl.server.callback.handler.class: kwire loads no",
        ),
        (
            {**TLS, "listener.name.ssl.ssl.client.auth": "perhaps"},
            "ssl.client.auth: must be one of",
        ),
        ({"inter.broker.listener.name": "OTHER"}, "must be one of the listeners"),
        (
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "only one of it and inter.broker.listener.name may be set",
        ),
        ({"security.inter.broker.protocol": "SSL"}, "must be the protocol of one of the listeners"),
    ],
)
def test_what_cannot_be_protected_as_asked_is_refused(given, problem):
    """In one line, before anything is opened, with the name under which it was given."""
    with pytest.raises(ConfigError, match=problem) as caught:
        BrokerConfig.load(given)
    assert "\n" not in str(caught.value)
    assert "hush" not in str(caught.value)


def test_the_listener_among_brokers():
    """By name, by protocol, else the first."""
    for name, expected in (
        ({}, "INSIDE"),
        ({"inter.broker.listener.name": "outside"}, "OUTSIDE"),
        ({"security.inter.broker.protocol": "SASL_PLAINTEXT"}, "OUTSIDE"),
    ):
        assert inter_broker_listener(BrokerConfig.load({**SASL, **name})).name == expected


def test_a_typo_in_a_listeners_setting_is_told(caplog):
    """Otherwise the listener would be less protected than its owner thinks."""
    name = "listener.name.ssl.ssl.client.aut"
    BrokerConfig.load({**TLS, name: "required", "listener.name.SSL.ssl.client.auth": "none"})
    assert caplog.messages == [f"setting {name} is unknown and ignored"]
