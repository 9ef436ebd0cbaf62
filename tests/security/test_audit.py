"""The audit log has Kafka's lines, nobody forges one, and it says what a JSON log needs."""

import json
import logging
from typing import NamedTuple

import pytest

from kwire.cli.log_lines import JsonFormatter
from kwire.metadata.acls import AclBinding, AclOperation, PatternType, Permission, ResourceType
from kwire.security.audit import note_answer
from kwire.security.authorizer import Authorizer
from kwire.security.principal import Principal


class Client(NamedTuple):
    """A client, as the audit log sees it."""

    principal: Principal
    peer_host: str = "10.0.0.1"


ALLOWS = AclBinding(
    *(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*"),
    *(AclOperation.READ, Permission.ALLOW),
)


def noted(caplog, name, who="alice"):
    """The records of one answer."""
    client = Client(Principal("User", who))
    question = AclOperation.READ, ResourceType.TOPIC, name
    authorizer = Authorizer((), [ALLOWS])
    rule = authorizer.rule(client, *question)
    caplog.clear()
    note_answer(authorizer, client, "Fetch", question, rule, 3)
    return caplog.records


@pytest.fixture(autouse=True)
def audited(caplog):
    """All lines are wanted."""
    with caplog.at_level(logging.DEBUG, "kwire.authorizer"):
        yield


def test_what_is_denied_is_an_info_line(caplog):
    [record] = noted(caplog, "payments")
    assert (record.name, record.levelno) == ("kwire.authorizer", logging.INFO)
    assert record.getMessage() == (
        "Principal = User:alice is Denied operation = READ from host = 10.0.0.1 on resource = "
        "Topic:LITERAL:payments for request = Fetch with resourceRefCount = 3 based on rule "
        "DefaultDeny"
    )


def test_what_is_allowed_is_a_debug_line_with_the_acl(caplog):
    [record] = noted(caplog, "orders")
    assert record.levelno == logging.DEBUG
    assert record.getMessage().endswith(
        "based on rule MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=orders, "
        "patternType=LITERAL, principal=User:alice, host=*, operation=READ, "
        "permissionType=ALLOW))"
    )


def test_the_fields_are_in_logs_of_json(caplog):
    [record] = noted(caplog, "payments")
    fields = ("principal", "host", "operation", "resource_type", "resource_name", "request")
    values = ("User:alice", "10.0.0.1", "READ", "Topic", "payments", "Fetch")
    said = json.loads(JsonFormatter().format(record))
    assert tuple(said[name] for name in fields) == values
    assert said["is_allowed"] is False


def test_nobody_forges_a_line(caplog):
    """Neither with a name nor as a principal; and no name fills the disk."""
    [record] = noted(caplog, "a\nPrincipal = User:eve\x1b[2K", who="x\ny")
    said = record.getMessage()
    assert said.isprintable()
    assert "a\\nPrincipal" in said
    [record] = noted(caplog, "n" * 30_000)
    assert len(record.getMessage()) < 700


def test_nothing_is_made_for_nobody(caplog):
    """A level that nobody wants costs no line."""
    with caplog.at_level(logging.WARNING, "kwire.authorizer"):
        assert not noted(caplog, "payments")
