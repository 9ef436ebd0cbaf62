"""A listener that is open to the network and asks for no password is warned about, once."""

import pytest

from kwire.config.broker import BrokerConfig, is_loopback
from kwire.config.exposure import warning


def _config(listeners: str, **more: str) -> BrokerConfig:
    settings = {name.replace("_", "."): value for name, value in more.items()}
    return BrokerConfig.load({"listeners": listeners} | settings)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.7", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1", False),
    ],
)
def test_only_loopback_addresses_are_this_machines(host: str, expected: bool) -> None:
    """Every other address may be reached by other machines."""
    assert is_loopback(host) is expected


def test_the_warning_names_the_open_addresses_and_the_way_out() -> None:
    """The loopback one isn't among them; an IPv6 address is written as clients write it."""
    config = _config(
        "PLAINTEXT://127.0.0.1:0,IPV4://:9092,IPV6://[::]:9093",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,IPV4:PLAINTEXT,IPV6:PLAINTEXT",
    )
    text = warning(config, [("127.0.0.1", 4711), ("0.0.0.0", 9092), ("::", 9093)])
    assert text is not None
    assert text.startswith("on 0.0.0.0:9092, [::]:9093 kwire asks nobody for a password: ")
    assert "listen on 127.0.0.1" in text
    assert "-o kwire.network.trusted=true" in text
    assert "\n" not in text


def test_there_is_no_warning_without_an_open_listener() -> None:
    """The default listener is on 127.0.0.1."""
    assert warning(BrokerConfig.load({}), [("127.0.0.1", 9092)]) is None


def test_who_trusts_the_network_is_not_warned() -> None:
    """kwire.network.trusted says that a firewall takes care."""
    config = _config("PLAINTEXT://:9092", kwire_network_trusted="true")
    assert warning(config, [("0.0.0.0", 9092)]) is None
