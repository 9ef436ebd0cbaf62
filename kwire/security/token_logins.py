"""Logins by delegation token: what SCRAM needs to know of a token, and who logs in with it.

Rules:

- The user name of such a login is a token's id, the password its HMAC in base64. The client says so
  by the extension ``tokenauth=true``.
- A token that has expired, or that was made with another secret key, is as unknown as one that
  never was. An unknown id gets a salt all the same, the one that a token with this id would have.

Source: ScramServerCallbackHandler, DelegationTokenCache of Kafka; KIP-48.
"""

from collections.abc import Callable
from typing import NamedTuple

from kwire.metadata.scram import HASHES, MIN_ITERATIONS, ScramCredential
from kwire.metadata.tokens import DelegationToken, Tokens, salt_of, secret_of

_MECHANISMS = tuple(HASHES)


class TokenLogin(NamedTuple):
    """The credential to check a proof with, and the token; None for one that is no login."""

    credential: ScramCredential
    token: DelegationToken | None


class TokenLogins:
    """The logins by the tokens that ``tokens`` gives, which were made with ``secret_key``."""

    def __init__(self, secret_key: str, tokens: Callable[[], Tokens]) -> None:
        self._secret_key = secret_key
        self._tokens = tokens

    def find(self, mechanism: str, token_id: str, now_ms: int) -> TokenLogin:
        """The login of a token id in a mechanism."""
        digest = secret_of(self._secret_key, token_id).digest
        salt = salt_of(self._secret_key, token_id)
        token = self._tokens().get(token_id)
        if token is None or token.digest != digest or token.is_expired(now_ms):
            return TokenLogin(ScramCredential(salt, b"", b"", MIN_ITERATIONS), None)
        return TokenLogin(token.credentials[_MECHANISMS.index(mechanism)], token)
