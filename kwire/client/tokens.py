"""Delegation tokens (KIP-48): describe, create, renew, expire."""

from collections.abc import Sequence
from typing import NamedTuple

from kwire.client.cluster import Cluster, check
from kwire.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kwire.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kwire.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kwire.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

NOW = -1
"""The period after which a token expires at once; for a lifetime the longest that is allowed."""


class Token(NamedTuple):
    """A delegation token; principals are texts like User:alice, times ms since the epoch."""

    id: str
    owner: str
    renewers: list[str]
    issued_ms: int
    expires_ms: int
    longest_ms: int
    hmac: bytes


async def describe_tokens(cluster: Cluster, owners: Sequence[str] | None = None) -> list[Token]:
    """The tokens that the user may see, of some owners or of all; KafkaError."""
    wanted = None
    if owners is not None:
        wanted = [
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in map(_parts, owners)
        ]
    answer = await cluster.ask(
        DescribeDelegationTokenRequest(owners=wanted), DescribeDelegationTokenResponse
    )
    check(answer.error_code, "the delegation tokens")
    return [
        Token(
            row.token_id,
            f"{row.principal_type}:{row.principal_name}",
            [f"{one.principal_type}:{one.principal_name}" for one in row.renewers],
            row.issue_timestamp,
            row.expiry_timestamp,
            row.max_timestamp,
            row.hmac,
        )
        for row in sorted(answer.tokens, key=lambda row: row.issue_timestamp)
    ]


async def create_token(
    cluster: Cluster, owner: str | None, renewers: Sequence[str], lifetime_ms: int
) -> Token:
    """Create a token for the user, or for another owner; KafkaError."""
    kind, name = (None, None) if owner is None else _parts(owner)
    answer = await cluster.ask(
        CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=[
                CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in map(_parts, renewers)
            ],
            max_lifetime_ms=lifetime_ms,
        ),
        CreateDelegationTokenResponse,
    )
    check(answer.error_code, "a new delegation token")
    return Token(
        answer.token_id,
        f"{answer.principal_type}:{answer.principal_name}",
        list(renewers),
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
        answer.hmac,
    )


async def renew_token(cluster: Cluster, hmac: bytes, period_ms: int) -> int:
    """Let a token live on for a time; returns when it expires. KafkaError."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    answer = await cluster.ask(request, RenewDelegationTokenResponse)
    check(answer.error_code, "the delegation token")
    return answer.expiry_timestamp_ms


async def expire_token(cluster: Cluster, hmac: bytes, period_ms: int) -> int:
    """Let a token expire after a time, or NOW; returns when. KafkaError."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    answer = await cluster.ask(request, ExpireDelegationTokenResponse)
    check(answer.error_code, "the delegation token")
    return answer.expiry_timestamp_ms


def _parts(principal: str) -> tuple[str, str]:
    """Type and name of a text like User:alice."""
    kind, _, name = principal.partition(":")
    return kind, name
