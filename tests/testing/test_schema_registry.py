"""The registry in a test's process: beside a test's broker, and alone."""

import socket

import pytest

from kwire.testing.kafka import Kafka
from kwire.testing.schema_registry import SchemaRegistry


def test_a_broker_keeps_its_registry_over_a_restart_only() -> None:
    """A client knows ids by the address, so a broker that begins anew has another one."""
    with Kafka({"kwire.registry.listen": "127.0.0.1:0"}) as kafka:
        address = kafka.schema_registry
        kafka.restart()
        assert kafka.schema_registry == address
        kafka.reset()
        assert kafka.schema_registry != address


def test_a_broker_without_a_registry_says_how_to_get_one() -> None:
    """The setting is named."""
    with Kafka() as kafka, pytest.raises(ValueError, match=r"kwire\.registry\.listen"):
        assert kafka.schema_registry


def test_a_registry_alone_keeps_port_and_schemas_while_it_is_stopped() -> None:
    """Another one has another port, though that one is free."""
    with SchemaRegistry() as first:
        number = first.register("orders-value", '"string"')
        address = first.url
        first.stop()
        with SchemaRegistry() as second:
            assert second.url != address
        first.start()
        assert first.url == address
        assert first.register("orders-value", '"string"') == number
        first.set_compatibility("NONE", "orders-value")
        assert first.register("orders-value", '"int"') == 2
        assert first.requests[-1] == "POST /subjects/orders-value/versions"


def test_a_registry_that_fails_and_one_that_asks_for_a_password() -> None:
    """As the test tells it."""
    with SchemaRegistry(user="me", password="secret") as registry:
        assert registry.ask("GET", "/subjects") == []
        registry.fail_with = 503
        with pytest.raises(AssertionError, match=r"503 .*told to fail"):
            registry.ask("GET", "/subjects")
        registry.fail_with = 0
        host, port = registry.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"GET /subjects HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 401 " in connection.recv(100)
