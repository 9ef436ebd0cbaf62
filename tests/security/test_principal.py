"""Principals are read and written in Kafka's form, ``type:name``."""

import pytest

from kwire.handlers.lib.context import ConnectionInfo
from kwire.security.principal import ANONYMOUS, Principal, parse_principal


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("User:alice", Principal("User", "alice")),
        ("User:CN=a,OU=b:c", Principal("User", "CN=a,OU=b:c")),
        ("Robot:7", Principal("Robot", "7")),
    ],
)
def test_a_principal_is_read_and_written(text, principal):
    assert parse_principal(text) == principal
    assert str(principal) == text


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice"])
def test_another_form_is_no_principal(text):
    with pytest.raises(ValueError, match="principalType:principalName"):
        parse_principal(text)


def test_a_client_that_did_not_authenticate_is_anonymous():
    client = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 9092, "10.0.0.7", 1234)
    assert client.principal is ANONYMOUS
    assert str(client.principal) == "User:ANONYMOUS"
    assert client.host == "10.0.0.7"
