"""The common part of the delegation token APIs: who may use them, and changes of one token.

Source: KafkaApis.allowTokenRequests, DelegationTokenManager of Kafka.
"""

from collections.abc import Callable

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage
from kwire.metadata.tokens import DelegationToken, Lifetimes, Secret, TokenChanged, find_token
from kwire.security.principal import ANONYMOUS

_KEY = "delegation.token.secret.key"


REQUESTER_SINCE = 3
"""Since this version, responses contain who has created a token."""

NO_TIME_MS = -1
"""The times in a response to a client that may not use the API."""


def may_ask(context: RequestContext) -> bool:
    """Whether the client has logged in otherwise than with a delegation token.

    With a token, a client could make new tokens that outlive it.
    """
    login = context.connection.login
    return context.principal != ANONYMOUS if login is None else not login.is_by_token


def secret_key(context: RequestContext) -> str:
    """The key that tokens are made with; KafkaError (DELEGATION_TOKEN_AUTH_DISABLED)."""
    key = context.broker.config[_KEY]
    if not key:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    assert isinstance(key, str)
    return key


def lifetimes(context: RequestContext) -> Lifetimes:
    """How long tokens live."""
    integer = context.broker.config.integer
    return Lifetimes(
        integer("delegation.token.max.lifetime.ms"), integer("delegation.token.expiry.time.ms")
    )


async def change(
    hmac: bytes, context: RequestContext, expires: Callable[[DelegationToken], int | None]
) -> int | None:
    """Change the expiry of the token with an HMAC; a time of None removes it at once.

    ``expires`` decides on the time. It may be called more than once; the time of the committed
    decision is returned. Raises KafkaError, also the errors of ``expires``.
    """
    secret_key(context)
    tokens = context.broker.image.tokens
    await context.work.give_way()
    token_id = find_token(tokens, Secret(hmac))
    expires_ms: int | None = None

    async def decide(image: MetadataImage) -> list[Change]:
        nonlocal expires_ms
        token = image.tokens.get(token_id)
        if token is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        expires_ms = expires(token)
        left = None if expires_ms is None else token._replace(expires_ms=expires_ms)
        return [TokenChanged(token_id, left)]

    await context.commit(decide)
    return expires_ms
