"""Ways around the ACLs that a client might try with Fetch: sessions, waits, replica ids."""

import pytest
import trio
import trio.testing

from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.errors import ErrorCode
from kwire.metadata.acls import (
    AclBinding,
    AclOperation,
    AclsCreated,
    AclsDeleted,
    PatternType,
    Permission,
    ResourceType,
)
from kwire.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from kwire.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.committed_topics import commit_topic
from tests.support.in_process import running_server

SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.jaas.config": 'x.P required user_admin="a" user_alice="b" user_eve="c";',
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin",
}
FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ACL = AclBinding(
    ResourceType.TOPIC,
    "t",
    PatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    Permission.ALLOW,
)


@pytest.fixture
async def running(tmp_path):
    """A server with a topic that alice may read and eve may not."""
    async with running_server(tmp_path, SETTINGS) as server:
        await commit_topic(server.broker, "t")
        await server.broker.commit(lambda _image: [AclsCreated((ACL,))])
        yield server


async def _client(running, user, password):
    client = await running.connect()
    await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
    request = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode())
    answer = await client.request(request, 2, SaslAuthenticateResponse)
    assert not answer.error_code
    return client


async def _append(running):
    admin = await _client(running, "admin", "a")
    await admin.produce("t", b"secret", acks=1)
    await admin.aclose()


def _fetch(running, version, session=(0, -1), wait_ms=0, replica=-1, named=True):
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topic_id = running.broker.image.topics_by_name["t"].topic_id
    topic = FetchTopic(topic="t", topic_id=topic_id, partitions=[partition])
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1000,
        session_id=session[0],
        session_epoch=session[1],
        topics=[topic] if named else [],
    )
    if version < 15:
        request.replica_id = replica
    elif replica >= 0:
        request.replica_state = ReplicaState(replica_id=replica, replica_epoch=-1)
    return request


def _refused(answer):
    [topic] = answer.responses
    [partition] = topic.partitions
    return partition.error_code == FAILED and not partition.records


@pytest.mark.parametrize("version", [7, 12, 17])
async def test_a_session_from_before_an_acl_was_removed(running, version):
    """What it holds is asked anew in each fetch, also by records that come later."""
    alice = await _client(running, "alice", "b")
    first = await alice.request(_fetch(running, version, (0, 0)), version, FetchResponse)
    assert first.session_id
    await running.broker.commit(lambda _image: [AclsDeleted((ACL,))])
    await _append(running)
    again = _fetch(running, version, (first.session_id, 1), named=False)
    assert _refused(await alice.request(again, version, FetchResponse))
    await alice.aclose()


@pytest.mark.parametrize("version", [7, 12, 17])
async def test_a_session_of_somebody_else(running, version):
    """Its partitions are those that its user may read, and another one's rights count."""
    alice, eve = await _client(running, "alice", "b"), await _client(running, "eve", "c")
    first = await alice.request(_fetch(running, version, (0, 0)), version, FetchResponse)
    await _append(running)
    stolen = _fetch(running, version, (first.session_id, 1), named=False)
    assert _refused(await eve.request(stolen, version, FetchResponse))
    await alice.aclose()
    await eve.aclose()


@pytest.mark.parametrize("version", [11, 12, 17])
async def test_a_fetch_that_waits_while_an_acl_is_removed(running, version):
    """The records that end the wait aren't told, on the fast path and in its twin."""
    alice = await _client(running, "alice", "b")
    await alice.send(_fetch(running, version, wait_ms=60_000), version)
    await trio.testing.wait_all_tasks_blocked()
    await running.broker.commit(lambda _image: [AclsDeleted((ACL,))])
    await _append(running)
    with trio.fail_after(10):
        frame = await alice.receive_frame()
    assert b"secret" not in frame
    assert FAILED.to_bytes(2, "big") in frame
    await alice.aclose()


@pytest.mark.parametrize("version", [4, 11, 12, 14, 15, 17, 18])
async def test_a_client_that_says_it_is_a_replica(running, version):
    """This needs CLUSTER_ACTION, even for who may read the topic."""
    await _append(running)
    for user, password in (("alice", "b"), ("eve", "c")):
        client = await _client(running, user, password)
        answer = await client.request(_fetch(running, version, replica=1), version, FetchResponse)
        assert _refused(answer)
        await client.aclose()
