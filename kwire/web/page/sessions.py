"""The sessions of administrators who have logged in; they end with the broker."""

import hmac
import secrets
import time
from typing import NamedTuple

from starlette.requests import Request

SESSION_S = 8 * 3600
MAX_SESSIONS = 100


class Session(NamedTuple):
    """A login; ``csrf`` is in every form of its pages."""

    csrf: str
    end_s: float


class Admin:
    """The sessions of one HTTP port."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._sessions: dict[str, Session] = {}
        # Brokers on other ports of the same host share the browser's cookies.
        self.cookie = f"kwire-{secrets.token_hex(4)}"

    def session_of(self, request: Request) -> Session | None:
        """The session of a request, None without a login."""
        session = self._sessions.get(request.cookies.get(self.cookie, ""))
        return session if session is not None and session.end_s > time.monotonic() else None

    def log_in(self, token: str) -> str | None:
        """The id of a new session, None for a wrong token."""
        if not hmac.compare_digest(token.encode(errors="replace"), self._token):
            return None
        now_s = time.monotonic()
        alive = {name: one for name, one in self._sessions.items() if one.end_s > now_s}
        self._sessions = dict(list(alive.items())[-MAX_SESSIONS + 1 :])
        session_id = secrets.token_urlsafe(24)
        self._sessions[session_id] = Session(secrets.token_urlsafe(24), now_s + SESSION_S)
        return session_id

    def log_out(self, request: Request) -> None:
        """End the session of a request."""
        self._sessions.pop(request.cookies.get(self.cookie, ""), None)
