"""SCRAM credentials are altered and described as KIP-554 says, within the bounds of one request."""

from kwire.errors import ErrorCode
from kwire.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tests.support.in_process import running_server


def _credential(user, mechanism=1):
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=b"salted"
    )


async def _altered(raw, upsertions, deletions=()):
    """Each user's error code."""
    request = AlterUserScramCredentialsRequest(deletions=list(deletions), upsertions=upsertions)
    answer = await raw.request(request, 0, AlterUserScramCredentialsResponse)
    return [(one.user, one.error_code) for one in answer.results]


async def _described(raw, users):
    """(user, error code, mechanisms) of these users; None: of all."""
    names = None if users is None else [UserName(name=user) for user in users]
    request = DescribeUserScramCredentialsRequest(users=names)
    answer = await raw.request(request, 0, DescribeUserScramCredentialsResponse)
    return [
        (one.user, one.error_code, [info.mechanism for info in one.credential_infos])
        for one in answer.results
    ]


async def test_all_users_are_described_in_order_and_once(tmp_path):
    """Also those with two mechanisms; and of those that are asked for, each has its own error."""
    async with running_server(tmp_path) as server:
        raw = await server.connect()
        users = [f"user-{n:03}" for n in range(250)]
        assert await _altered(raw, [_credential(user) for user in reversed(users)]) == [
            (user, 0) for user in reversed(users)
        ]
        assert await _altered(raw, [_credential(user, 2) for user in users[:3]]) == [
            (user, 0) for user in users[:3]
        ]
        described = [(user, 0, [1, 2] if user in users[:3] else [1]) for user in users]
        assert await _described(raw, None) == described
        assert await _described(raw, []) == described
        assert await _described(raw, ["user-009", "eve", "bob", "bob"]) == [
            ("user-009", 0, [1]),
            ("eve", ErrorCode.RESOURCE_NOT_FOUND, []),
            ("bob", ErrorCode.DUPLICATE_RESOURCE, []),
        ]
        await raw.aclose()


async def test_a_request_alters_so_many_at_most(tmp_path):
    """Beyond that every user that it names has the error, and nothing is altered."""
    async with running_server(tmp_path) as server:
        raw = await server.connect()
        many = [_credential(f"user-{n}") for n in range(1000)]
        assert len(await _altered(raw, [_credential(f"user-{n}") for n in range(5000)])) == 5000
        assert len(await _described(raw, [f"user-{n}" for n in range(5000)])) == 5000
        gone = [ScramCredentialDeletion(name="user-1", mechanism=1)]
        refused = await _altered(raw, many, gone)
        assert len(refused) == 1000
        assert {code for _, code in refused} == {ErrorCode.POLICY_VIOLATION}
        assert await _described(raw, None) == []
        assert {code for _, code in await _altered(raw, many)} == {0}
        assert await _altered(raw, many[:1], gone) == [("user-1", 0), ("user-0", 0)]
        assert len(await _described(raw, None)) == 999
        await raw.aclose()
