"""The audit log tells of single requests as of any other, and of each login."""

import logging

import pytest

from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.metadata.acls import (
    AclBinding,
    AclOperation,
    AclsCreated,
    PatternType,
    Permission,
    ResourceType,
)
from kwire.protocol.messages.fetch import FetchResponse
from kwire.protocol.messages.produce import (
    ProduceResponse,
)
from kwire.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.committed_topics import commit_topic
from tests.support.in_process import running_server
from tests.support.records import batch
from tests.support.requests import fetch_request, produce_request

SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.jaas.config": 'x.P required user_alice="b";',
    "authorizer.class.name": STANDARD_AUTHORIZER,
}
PRODUCE, FETCH = 13, 13
"""Versions that have single requests."""


def acl(operation):
    """Alice may do this to the topic ``t``."""
    pattern = ResourceType.TOPIC, "t", PatternType.LITERAL
    return AclBinding(*pattern, "User:alice", "*", operation, Permission.ALLOW)


async def served(tmp_path, caplog, level, partitions=1, repeats=1):
    """What the audit log says of a login, a Produce and a Fetch of all partitions.

    Returns its lines, and how many requests were served as single ones.
    """
    caplog.set_level(logging.INFO, "kwire.logins")
    caplog.set_level(level, "kwire.authorizer")
    async with running_server(tmp_path, SETTINGS) as running:
        broker = running.broker
        topic_id = await commit_topic(broker, "t", partitions)
        acls = acl(AclOperation.READ), acl(AclOperation.WRITE)
        await broker.commit(lambda _image: [AclsCreated(acls)])
        client = await running.connect()
        await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
        login = SaslAuthenticateRequest(auth_bytes=b"\0alice\0b")
        await client.request(login, 2, SaslAuthenticateResponse)
        for _ in range(repeats):
            await produce_and_fetch(client, topic_id, partitions)
        single = broker.counters.singles
    names = ("kwire.authorizer", "kwire.logins")
    return [one for one in caplog.records if one.name in names], single


async def produce_and_fetch(client, topic_id, partitions):
    """One request of each kind; neither fails."""
    batches = dict.fromkeys(range(partitions), batch(b"one"))
    produce = produce_request("t", batches, topic_id=topic_id, acks=1)
    answer = await client.request(produce, PRODUCE, ProduceResponse)
    assert not any(one.error_code for one in answer.responses[0].partition_responses)
    fetch = fetch_request("t", dict.fromkeys(batches, 0), topic_id=topic_id, max_wait_ms=500)
    answer = await client.request(fetch, FETCH, FetchResponse)
    assert not any(one.error_code for one in answer.responses[0].partitions)


@pytest.mark.parametrize("partitions", [1, 3])
async def test_what_is_allowed_is_told_of_common_requests_too(tmp_path, caplog, partitions):
    """At DEBUG one line for each request, which the handler writes."""
    [login, produced, fetched], single = await served(tmp_path, caplog, logging.DEBUG, partitions)
    assert single == 0
    allowed = "Principal = User:alice is Allowed operation = {} from host = 127.0.0.1 on resource"
    for record, api, operation in ((produced, "Produce", "WRITE"), (fetched, "Fetch", "READ")):
        assert record.levelno == logging.DEBUG
        assert record.getMessage().startswith(allowed.format(operation))
        assert f" = Topic:LITERAL:t for request = {api} " in record.getMessage()
    assert f"resourceRefCount = {partitions} " in fetched.getMessage()
    assert login.getMessage() == (
        "Principal = User:alice has logged in from host = 127.0.0.1 at listener = SASL_PLAINTEXT "
        "with PLAIN"
    )
    assert login.fields["mechanism"] == "PLAIN"


async def test_without_it_single_requests_are_served_as_such(tmp_path, caplog):
    """At INFO, which is the default, the log has the login alone."""
    [login], single = await served(tmp_path, caplog, logging.INFO, repeats=2)
    assert login.name == "kwire.logins"
    assert single == 1, "all but the first Produce, which makes the files of a log"


async def test_permissions_that_are_left_out_are_counted(tmp_path, caplog):
    """A busy client has so many lines; then one line says how many there would have been more."""
    lines, _ = await served(tmp_path, caplog, logging.DEBUG, repeats=60)
    assert len([one for one in lines if "is Allowed" in one.getMessage()]) == 100


async def test_a_login_that_failed_is_told_with_its_host(tmp_path, caplog):
    """In the audit log, with fields for JSON, and without the password."""
    caplog.set_level(logging.INFO, "kwire.logins")
    async with running_server(tmp_path, SETTINGS) as running:
        client = await running.connect()
        await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
        login = SaslAuthenticateRequest(auth_bytes=b"\0alice\0hush")
        await client.request(login, 2, SaslAuthenticateResponse)
        assert await client.is_closed()
    [failure] = [one for one in caplog.records if one.name == "kwire.logins"]
    reason = "authentication failed: wrong name or password for user 'alice'"
    assert failure.fields == {"host": "127.0.0.1", "reason": reason}
