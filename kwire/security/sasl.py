"""The common part of all SASL mechanisms.

Rules:

- An ``Exchange`` is one login of one client. It takes the client's messages and returns the
  answers, until the client's identity is known.
- A client that is refused gets the same text for every reason (``REFUSED``), so that it can't find
  out which users exist. The log has the reason, but never a password, a token or a proof.
- Exchanges are pure: they use no sockets and no event loop, and get the time as an argument.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from kwire.security.principal import Principal

REFUSED = "Authentication failed: Invalid username or password"
"""The text for every refused client. Kafka uses it for PLAIN."""


MOST_PASSWORD_MESSAGE_BYTES = 16_384
"""The largest message of PLAIN or SCRAM. Longer ones come from unknown clients and are not
parsed."""


class LoginRefused(Exception):
    """The client has not proved its identity. The text is the reason, for the log."""

    def __init__(self, reason: str, told: str = REFUSED) -> None:
        super().__init__(reason)
        self.told = told


class Identity(NamedTuple):
    """The user who has logged in, and the end of the login in ms since 1970 (None: it doesn't end).

    ``is_by_token`` says whether the user has logged in with a delegation token.
    """

    principal: Principal
    expires_ms: int | None = None
    is_by_token: bool = False


class Exchange(Protocol):
    """One login by one mechanism."""

    identity: Identity | None
    """Who the client is, once the exchange is complete."""

    def step(self, message: bytes, now_ms: int) -> bytes:
        """The answer to the client's next message; LoginRefused."""


NewExchange: TypeAlias = Callable[[], Exchange]


def printable(name: str) -> str:
    """Shorten a name from a client, and escape unprintable characters, for a line of the log."""
    return repr(name[:80])
