"""Logins by delegation token: SCRAM gets a token's credential here, and the owner who then logs in.

Rules:

- The client says ``tokenauth=true``. Its user name is the id of the token, its password the token's
  HMAC in base64.
- A token that has expired, or that was made with another secret key, is treated like an unknown
  token. For an unknown id the client still gets a salt, namely the salt that a token with this id
  would have, so that nobody can find out which tokens exist.

Source: ScramServerCallbackHandler, DelegationTokenCache of Kafka; KIP-48.
"""

from collections.abc import Callable
from typing import NamedTuple

from kwire.metadata.scram import HASHES, MIN_ITERATIONS, ScramCredential
from kwire.metadata.tokens import DelegationToken, Tokens, salt_of, secret_of

_MECHANISMS = tuple(HASHES)


class TokenLogin(NamedTuple):
    """The credential that checks the client's proof, and the token; None if no valid token
    exists.
    """

    credential: ScramCredential
    token: DelegationToken | None


class TokenLogins:
    """Finds logins among the tokens that ``tokens`` returns; ``secret_key`` has made them."""

    def __init__(self, secret_key: str, tokens: Callable[[], Tokens]) -> None:
        self._secret_key = secret_key
        self._tokens = tokens

    def find(self, mechanism: str, token_id: str, now_ms: int) -> TokenLogin:
        """The login for a token id by a SCRAM mechanism."""
        digest = secret_of(self._secret_key, token_id).digest
        salt = salt_of(self._secret_key, token_id)
        token = self._tokens().get(token_id)
        if token is None or token.digest != digest or token.is_expired(now_ms):
            return TokenLogin(ScramCredential(salt, b"", b"", MIN_ITERATIONS), None)
        return TokenLogin(token.credentials[_MECHANISMS.index(mechanism)], token)
