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


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7"])
def test_an_open_http_port_is_warned_about(host: str) -> None:
    """Alone it lets everybody read; beside an open listener it stands in the same line."""
    default = BrokerConfig.load({})
    shown = f"http://[{host}]:8080/" if ":" in host else f"http://{host}:8080/"
    text = warning(default, [("127.0.0.1", 9092)], [(host, 8080)])
    assert text is not None
    assert text.startswith(f"on {shown} kwire asks nobody for a password: ")
    assert "can read everything;" in text
    both = warning(default, [("0.0.0.0", 9092)], [(host, 8080)])
    assert both is not None
    assert both.startswith(f"on 0.0.0.0:9092, {shown} kwire asks nobody for a password: ")
    assert "can read, write and delete everything;" in both
    assert warning(default, [("127.0.0.1", 9092)], [("127.0.0.1", 8080)]) is None
    trusting = BrokerConfig.load({"kwire.network.trusted": "true"})
    assert warning(trusting, [("127.0.0.1", 9092)], [(host, 8080)]) is None


def test_who_trusts_the_network_is_not_warned() -> None:
    """kwire.network.trusted says that a firewall takes care."""
    config = _config("PLAINTEXT://:9092", kwire_network_trusted="true")
    assert warning(config, [("0.0.0.0", 9092)]) is None


def test_one_warning_names_the_open_addresses_of_all_workers() -> None:
    """Each worker has all listeners; those of worker 2 come after those of worker 1."""
    config = _config(
        "PLAINTEXT://:0,LOCAL://127.0.0.1:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,LOCAL:PLAINTEXT",
    )
    addresses = [("0.0.0.0", 4000), ("127.0.0.1", 4001), ("0.0.0.0", 4002), ("127.0.0.1", 4003)]
    text = warning(config, addresses, [("::", 8080), ("::", 8081)])
    assert text is not None
    assert text.startswith("on 0.0.0.0:4000, 0.0.0.0:4002, http://[::]:8080/, http://[::]:8081/ ")
