"""The sessions of administrators who have logged in; they end with the broker.

Rule: a session ends ``SESSION_S`` after the login, by the steady clock. So neither a new date nor
a suspend of the machine makes a login last longer.
"""

import hmac
import secrets
from collections.abc import Callable
from typing import NamedTuple

from starlette.requests import Request

SESSION_S = 8 * 3600
MAX_SESSIONS = 100


class Session(NamedTuple):
    """A login; ``csrf`` is in every form of its pages."""

    csrf: str
    end_ms: int


class Admin:
    """The sessions of one HTTP port."""

    def __init__(self, token: str, steady_ms: Callable[[], int]) -> None:
        self._token = token.encode()
        self._steady_ms = steady_ms
        self._sessions: dict[str, Session] = {}
        # Brokers on other ports of the same host share the browser's cookies.
        self.cookie = f"kwire-{secrets.token_hex(4)}"

    def session_of(self, request: Request) -> Session | None:
        """The session of a request, None without a login."""
        session = self._sessions.get(request.cookies.get(self.cookie, ""))
        return session if session is not None and session.end_ms > self._steady_ms() else None

    def log_in(self, token: str) -> str | None:
        """The id of a new session, None for a wrong token."""
        if not hmac.compare_digest(token.encode(errors="replace"), self._token):
            return None
        now_ms = self._steady_ms()
        alive = {name: one for name, one in self._sessions.items() if one.end_ms > now_ms}
        self._sessions = dict(list(alive.items())[-MAX_SESSIONS + 1 :])
        session_id = secrets.token_urlsafe(24)
        self._sessions[session_id] = Session(secrets.token_urlsafe(24), now_ms + SESSION_S * 1000)
        return session_id

    def log_out(self, request: Request) -> None:
        """End the session of a request."""
        self._sessions.pop(request.cookies.get(self.cookie, ""), None)
