"""The state of one connection's SASL login: which requests the client may send, and who it is.

Rules:

- Before the login, a client may send ApiVersions, SaslHandshake and SaslAuthenticate, in this order
  and nothing else.
- A login may be valid for a limited time only (``connections.max.reauth.ms``, or the lifetime of a
  token). Before that time is over, the client logs in again on the same connection, as the same
  user (KIP-368). Afterwards only the requests of a login are served.
- A failed login ends the connection. ``failure`` is the reason, for the log.

Source: SaslServerAuthenticator of Kafka.
"""

import math
from collections.abc import Mapping

from kwire.protocol.frame import API_VERSIONS_KEY
from kwire.protocol.wire import problem_of_string
from kwire.security.principal import ANONYMOUS, Principal
from kwire.security.sasl import REFUSED, Exchange, Identity, LoginRefused, NewExchange, printable

SASL_HANDSHAKE_KEY, SASL_AUTHENTICATE_KEY = 17, 36
_KEYS = frozenset({API_VERSIONS_KEY, SASL_HANDSHAKE_KEY, SASL_AUTHENTICATE_KEY})

LEAST_BETWEEN_LOGINS_S = 1.0
"""The least time between two logins on one connection, as in Kafka."""


class Login:
    """The login of one connection. Times are seconds on the event loop's clock."""

    __slots__ = (
        "_began_s",
        "_exchange",
        "_max_session_ms",
        "_mechanism",
        "_mechanisms",
        "expires_s",
        "failure",
        "has_news",
        "is_by_token",
        "is_open",
        "principal",
    )

    def __init__(
        self, mechanisms: Mapping[str, NewExchange], max_session_ms: Mapping[str, int]
    ) -> None:
        self._mechanisms = mechanisms
        self._max_session_ms = max_session_ms
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._began_s = -math.inf
        self.principal: Principal = ANONYMOUS
        self.is_by_token = False
        """Whether the client has logged in with a delegation token, which asks for no others."""
        self.is_open = False
        """Whether the client has logged in, and isn't about to do so again."""
        self.expires_s = math.inf
        self.failure: str | None = None
        self.has_news = False
        """Whether the login has succeeded or failed since its owner last looked."""

    @property
    def mechanisms(self) -> list[str]:
        """The SASL mechanisms that the listener offers."""
        return list(self._mechanisms)

    @property
    def mechanism(self) -> str:
        """The SASL mechanism of the last login that began; empty before."""
        return self._mechanism

    def refusal(self, api_key: int, now_s: float) -> str | None:
        """Why the client may not send a request of this API now; None if it may."""
        if self._exchange is None and self.is_open and now_s < self.expires_s:
            return None
        if self._exchange is not None and api_key != SASL_AUTHENTICATE_KEY:
            return f"API key {api_key} in the middle of a login"
        if api_key in _KEYS:
            return None
        if self.is_open:
            return "its session has ended, and it hasn't logged in again"
        return f"API key {api_key} before a login"

    def start_exchange(self, mechanism: str, now_s: float) -> bool:
        """Begin a login; returns False if no login may begin now; LoginRefused."""
        if self._exchange is not None or now_s < self._began_s + LEAST_BETWEEN_LOGINS_S:
            return False
        if self.is_open and mechanism != self._mechanism:
            raise self.fail(f"it logs in again with another mechanism, {printable(mechanism)}")
        new_exchange = self._mechanisms.get(mechanism)
        if new_exchange is None:
            raise self.fail(f"the mechanism {printable(mechanism)} is not enabled")
        self._began_s = now_s
        self._mechanism = mechanism
        self._exchange = new_exchange()
        return True

    @property
    def is_begun(self) -> bool:
        """Whether a login is in progress and the client's next message continues it."""
        return self._exchange is not None

    def step(self, message: bytes, now_ms: int, now_s: float) -> tuple[bytes, int]:
        """Take the client's next message. Returns the answer, and how long the login is valid in
        ms.

        The time is 0 while the login is in progress, and if the login is valid forever.
        LoginRefused.
        """
        exchange = self._exchange
        assert exchange is not None
        try:
            answer = exchange.step(message, now_ms)
        except LoginRefused as refused:
            self._note_failure(str(refused))
            raise
        if exchange.identity is None:
            return answer, 0
        return answer, self._complete(exchange.identity, now_ms, now_s)

    def _complete(self, identity: Identity, now_ms: int, now_s: float) -> int:
        if self.is_open and identity.principal != self.principal:
            name = printable(identity.principal.name)
            raise self.fail(f"it logs in again as another user, {name}")
        problem = problem_of_string(identity.principal.name)
        if problem is not None:
            # The client has proved the name, so the answer may say what is wrong with it.
            reason = f"the name {printable(identity.principal.name)} {problem}"
            raise self.fail(reason, f"Authentication failed: the name of the user {problem}")
        session_ms = self._max_session_ms[self._mechanism] or math.inf
        if identity.expires_ms is not None:
            session_ms = min(session_ms, max(identity.expires_ms - now_ms, 1))
        self.principal = identity.principal
        self.is_by_token = identity.is_by_token
        self.expires_s = now_s + session_ms / 1000
        self._exchange = None
        self.is_open = self.has_news = True
        return 0 if math.isinf(session_ms) else int(session_ms)

    def fail(self, reason: str, told: str = REFUSED) -> LoginRefused:
        """Record that the login has failed. Returns the error for the caller to raise."""
        self._note_failure(reason)
        return LoginRefused(reason, told)

    def _note_failure(self, reason: str) -> None:
        self.failure = reason
        self.has_news = True
        self._exchange = None
