"""ACLs are created, found and deleted as Kafka's filters say, and need an authorizer."""

from importlib import import_module

import pytest

from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.errors import ErrorCode
from kwire.handlers import APIS, OWN_APIS
from kwire.handlers.lib.rights import needs
from kwire.metadata.acls import AclOperation, PatternType, Permission, ResourceType
from kwire.metadata.changes import FeatureLevelChanged
from kwire.metadata.features import CHANGES_VERSION
from kwire.protocol.messages import MODULES, OWN_MODULES
from kwire.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from kwire.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kwire.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.protocol.messages.produce import (
    ProduceResponse,
)
from tests.support.committed_topics import commit_topic
from tests.support.in_process import running_server
from tests.support.records import batch
from tests.support.requests import produce_request

SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ANY = 1


def creation(name, kind=TOPIC, pattern=LITERAL, **others):
    """An ACL to create."""
    values = {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**(values | others))


def wanted(kind=ANY, name=None, pattern=ANY, principal=None):
    """The fields of a filter that every entry in it matches."""
    return {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": principal,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }


async def create(raw, *creations):
    """The error codes of the entries."""
    request = CreateAclsRequest(creations=list(creations))
    response = await raw.request(request, 3, CreateAclsResponse)
    return [result.error_code for result in response.results]


async def described(raw, **fields):
    """(resource type, name, pattern type) of what a filter matches, each with its principals."""
    response = await raw.request(DescribeAclsRequest(**wanted(**fields)), 3, DescribeAclsResponse)
    assert not response.error_code
    return {
        (one.resource_type, one.resource_name, one.pattern_type): [
            acl.principal for acl in one.acls
        ]
        for one in response.resources
    }


ENTRIES = (
    creation("orders"),
    creation("orders", principal="User:bob"),
    creation("ord", pattern=PREFIXED),
    creation("orders.eu", pattern=PREFIXED),
    creation("*"),
    creation("orders", GROUP),
)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"kind": TOPIC}, [0, 1, 2, 3, 4]),
        ({"name": "orders"}, [0, 1, 5]),
        ({"name": "orders", "pattern": LITERAL}, [0, 1, 5]),
        ({"kind": TOPIC, "name": "orders", "pattern": PatternType.MATCH}, [0, 1, 2, 4]),
        ({"kind": TOPIC, "name": "orders.eu.1", "pattern": PatternType.MATCH}, [2, 3, 4]),
        ({"pattern": PREFIXED}, [2, 3]),
        ({"pattern": PatternType.MATCH}, [0, 1, 2, 3, 4, 5]),
        ({"name": "ord", "pattern": PREFIXED}, [2]),
        ({"principal": "User:bob"}, [1]),
        ({"principal": "User:*"}, []),
    ],
)
async def test_filters_find_what_kafka_s_find(tmp_path, fields, found):
    """DescribeAcls and DeleteAcls alike; and what was deleted is gone after a restart."""
    expected = {}
    for place in found:
        one = ENTRIES[place]
        key = one.resource_type, one.resource_name, one.resource_pattern_type
        expected.setdefault(key, []).append(one.principal)
    async with running_server(tmp_path, SETTINGS) as server:
        raw = await server.connect()
        assert await create(raw, *ENTRIES, ENTRIES[0]) == [0] * 7
        assert await described(raw, **fields) == expected
        deletion = DeleteAclsRequest(filters=[DeleteAclsFilter(**wanted(**fields))] * 2)
        response = await raw.request(deletion, 3, DeleteAclsResponse)
        for result in response.filter_results:
            assert len(result.matching_acls) == len(found)
        left = await described(raw)
        assert sum(map(len, left.values())) == len(ENTRIES) - len(found)
        await raw.aclose()
    async with running_server(tmp_path, SETTINGS) as server:
        raw = await server.connect()
        assert await described(raw) == left
        await raw.aclose()


async def test_invalid_entries_have_errors_of_their_own(tmp_path):
    """The others of the request are created."""
    invalid = [
        creation(""),
        creation("a", ResourceType.ANY),
        creation("a", ResourceType.CLUSTER),
        creation("a", pattern=PatternType.MATCH),
        creation("a", operation=ANY),
        creation("a", permission_type=ANY),
        creation("a", principal="alice"),
        creation("a" * 1001),
    ]
    async with running_server(tmp_path, SETTINGS) as server:
        raw = await server.connect()
        assert await create(raw, *invalid, creation("a")) == [ErrorCode.INVALID_REQUEST] * 8 + [0]
        assert await described(raw) == {(TOPIC, "a", LITERAL): ["User:alice"]}
        many = [creation(f"t{n}") for n in range(10_001)]
        assert set(await create(raw, *many)) == {ErrorCode.POLICY_VIOLATION}
        assert set(await create(raw, *many[:3000])) == {0}
        assert len(await described(raw)) == 3001
        await raw.aclose()


NUMBERS = ("resource_type", "resource_pattern_type", "operation", "permission_type")
IN_FILTERS = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")


async def test_the_number_unknown_ends_the_connection(tmp_path):
    """As in Kafka, whose requests refuse to hold it."""
    unknown = [CreateAclsRequest(creations=[creation("a", **{name: 0})]) for name in NUMBERS]
    for name in IN_FILTERS:
        fields = wanted() | {name: 0}
        unknown += [
            DescribeAclsRequest(**fields),
            DeleteAclsRequest(filters=[DeleteAclsFilter(**fields)]),
        ]
    async with running_server(tmp_path, SETTINGS) as server:
        for request in unknown:
            raw = await server.connect()
            await raw.send(request, 3)
            assert await raw.is_closed()


@pytest.mark.parametrize("number", [77, -1])
async def test_a_number_that_stands_for_nothing_is_an_error_of_its_own(tmp_path, number):
    """As in Kafka: entries and filters with it are refused, and describing finds nothing."""
    async with running_server(tmp_path, SETTINGS) as server:
        raw = await server.connect()
        creations = [creation("a", **{name: number}) for name in NUMBERS]
        assert await create(raw, *creations, creation("a")) == [ErrorCode.INVALID_REQUEST] * 4 + [0]
        fields = [wanted() | {name: number} for name in IN_FILTERS]
        for one in fields:
            answer = await raw.request(DescribeAclsRequest(**one), 3, DescribeAclsResponse)
            assert (answer.error_code, answer.resources) == (0, [])
        filters = [DeleteAclsFilter(**one) for one in (*fields, wanted())]
        response = await raw.request(DeleteAclsRequest(filters=filters), 3, DeleteAclsResponse)
        assert [
            (one.error_code, one.error_message, len(one.matching_acls))
            for one in response.filter_results
        ] == [
            *[(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.", 0)] * 2,
            *[(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.", 0)] * 2,
            (0, None, 1),
        ]
        await raw.aclose()


async def test_without_an_authorizer_there_are_no_acls(tmp_path):
    async with running_server(tmp_path) as server:
        raw = await server.connect()
        disabled = ErrorCode.SECURITY_DISABLED
        assert await create(raw, creation("a")) == [disabled]
        asked = DescribeAclsRequest(**wanted())
        assert (await raw.request(asked, 3, DescribeAclsResponse)).error_code == disabled
        deletion = DeleteAclsRequest(filters=[DeleteAclsFilter(**wanted())])
        [result] = (await raw.request(deletion, 3, DeleteAclsResponse)).filter_results
        assert result.error_code == disabled
        await raw.aclose()


async def test_a_cluster_with_older_brokers_gets_no_acls(tmp_path):
    """They couldn't follow the log of changes."""
    async with running_server(tmp_path, SETTINGS) as server:
        await server.broker.commit(lambda _: [FeatureLevelChanged(CHANGES_VERSION, 1)])
        raw = await server.connect()
        assert await create(raw, creation("a")) == [ErrorCode.UNSUPPORTED_VERSION]
        await raw.aclose()


def test_every_api_says_its_rights():
    """None can be forgotten: an API without rights has no route."""
    for key in (*APIS, *OWN_APIS):
        module = import_module(f"kwire.handlers.{MODULES.get(key) or OWN_MODULES[key]}")
        assert needs(module.RIGHTS), module.__name__


LOGIN = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:alice",
    "listeners": "LOGIN://127.0.0.1:0",
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": (
        'x.PlainLoginModule required user_alice="a" user_bob="b";'
    ),
}


async def logged_in(server, name, password):
    """A connection of this user."""
    raw = await server.connect()
    await raw.login(name, password)
    return raw


async def test_who_has_logged_in_has_the_rights_of_its_name(tmp_path):
    """Handlers and fast paths see the principal of the login."""
    async with running_server(tmp_path, LOGIN) as server:
        alice = await logged_in(server, "alice", "a")
        bob = await logged_in(server, "bob", "b")
        refused = await bob.request(DescribeAclsRequest(**wanted()), 3, DescribeAclsResponse)
        assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        await alice.topic("t")
        write = creation("t", principal="User:bob", operation=AclOperation.WRITE)
        records = batch((b"k", b"v"), timestamp=server.broker.now_ms())
        request = produce_request("t", records, acks=1)
        told = []
        for _ in range(3):
            response = await bob.request(request, 12, ProduceResponse)
            told.append(response.responses[0].partition_responses[0].error_code)
            assert await create(alice, write) == [0]
        assert told == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0, 0]
        await alice.aclose()
        await bob.aclose()


async def test_no_topic_that_may_be_seen_is_not_every_topic(tmp_path):
    """In version 0 of Metadata an empty list asks for all: none is left when none may be seen."""
    async with running_server(tmp_path, LOGIN) as server:
        await commit_topic(server.broker, "hidden")
        await commit_topic(server.broker, "seen")
        alice, bob = await logged_in(server, "alice", "a"), await logged_in(server, "bob", "b")
        seen = creation("seen", principal="User:bob", operation=AclOperation.DESCRIBE)
        assert await create(alice, seen) == [0]
        failed = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for names, found in (([], [(0, "seen")]), (["hidden"], [(failed, "hidden")])):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
            answer = await bob.request(request, 0, MetadataResponse)
            assert [(topic.error_code, topic.name) for topic in answer.topics] == found
        for one in (alice, bob):
            await one.aclose()
