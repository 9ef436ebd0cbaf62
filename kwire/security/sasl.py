"""The steps that all SASL mechanisms of a listener share.

Rules:

- An ``Exchange`` is one login of one client: bytes in, bytes out, until it knows who the client is.
- A client that is refused learns one text, whatever was wrong (``REFUSED``). The log learns the
  reason, and never a password, a token or a proof.
- Exchanges are pure: they know no socket and no event loop, and take the time.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from kwire.security.principal import Principal

REFUSED = "Authentication failed: Invalid username or password"
"""What a client is told, as Kafka tells clients of PLAIN."""


MOST_PASSWORD_MESSAGE_BYTES = 16_384
"""A longer message of PLAIN or SCRAM is refused unread: a client that nobody knows sends it."""


class LoginRefused(Exception):
    """The client isn't who it says it is; the text is for the log."""

    def __init__(self, reason: str, told: str = REFUSED) -> None:
        super().__init__(reason)
        self.told = told


class Identity(NamedTuple):
    """Who has logged in, and until when that counts (milliseconds since 1970; None: no end).

    ``is_by_token`` says that it was with a delegation token.
    """

    principal: Principal
    expires_ms: int | None = None
    is_by_token: bool = False


class Exchange(Protocol):
    """One login in one mechanism."""

    identity: Identity | None
    """Who the client is, once the exchange is complete."""

    def step(self, message: bytes, now_ms: int) -> bytes:
        """The answer to the client's next message; LoginRefused."""


NewExchange: TypeAlias = Callable[[], Exchange]


def printable(name: str) -> str:
    """A name that a client gave, short and harmless in a line of the log."""
    return repr(name[:80])
