"""Who asks the registry: TLS and logins of one of the broker's listeners.

Rules:

- ``kwire.registry.security.listener`` names the listener. The port then speaks TLS if that listener
  does, with its keys and its demands on clients' certificates. If the listener has logins, each
  request needs one: ``Authorization: Basic`` for users of PLAIN and SCRAM, ``Bearer`` for tokens.
- A request without a login is answered with 401 before its body is read.
- A password is checked in a thread, for SCRAM makes that slow, and of each address one at a time:
  who tries passwords without end keeps others waiting for one of them at most. A login that was
  right is known for ``KNOWN_MS``, as long as the users of SCRAM stay as they are; wrong ones are
  checked each time.
"""

import hashlib
import json
import logging
from collections.abc import Callable
from secrets import token_bytes
from typing import NamedTuple

import trio

from kwire.budget.thread_pool import ThreadPool
from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.metadata.image import MetadataImage
from kwire.metadata.scram import Credentials
from kwire.protocol.wire import problem_of_string
from kwire.registry.app import CLIENT
from kwire.registry.rights import Asking
from kwire.security.http_login import log_in, schemes
from kwire.security.listeners import ListenerSecurity
from kwire.security.principal import Principal
from kwire.security.sasl import Identity, LoginRefused, printable
from kwire.security.tls import NoPrincipal
from kwire.web.connections import TLS
from kwire.web.guard import App, Receive, Scope, Send

log = logging.getLogger(__name__)

SETTING = "kwire.registry.security.listener"
KNOWN_MS = 60_000
MOST_KNOWN = 1_000


class _Known(NamedTuple):
    """A login that was right."""

    identity: Identity
    credentials: Credentials
    until_ms: float


class Logins:
    """The security of the port of a registry; ``image`` returns the metadata, None before a start.

    Raises ConfigError.
    """

    def __init__(
        self,
        config: BrokerConfig,
        image: Callable[[], MetadataImage | None],
        now_ms: Callable[[], int],
        steady_ms: Callable[[], int],
    ) -> None:
        name = str(config[SETTING]).upper()
        if name not in config.secured_listeners:
            problem = "must name one of the listeners with TLS or logins"
            raise ConfigError(SETTING, config[SETTING], problem)
        self._image = image
        self._listener = ListenerSecurity(
            name, config, lambda: image() or MetadataImage(), steady_ms
        )
        self._now_ms, self._steady_ms = now_ms, steady_ms
        self._schemes = schemes(self._listener.mechanisms)
        if self._listener.settings.is_sasl and not self._schemes:
            problem = f"{name} has no login that HTTP has: PLAIN, SCRAM or OAUTHBEARER"
            raise ConfigError(SETTING, config[SETTING], problem)
        self._secret = token_bytes(32)
        self._known: dict[bytes, _Known] = {}
        self._threads = ThreadPool(1)
        self._turns: dict[str, trio.Lock] = {}
        """Of the addresses that log in now."""

    @property
    def listener(self) -> ListenerSecurity:
        """The listener whose TLS it is."""
        return self._listener

    def guarded(self, app: App) -> App:
        """The application behind the login, which tells it the client (``CLIENT``)."""

        async def asked_for_login(scope: Scope, receive: Receive, send: Send) -> None:
            image, status, why = self._image(), 401, "Unauthorized"
            host = scope["client"][0]
            try:
                if image is not None:
                    scope[CLIENT] = Asking(await self._principal(scope, image), host)
                    await app(scope, receive, send)
                    return
                status, why = 503, "the broker is starting"
            except (LoginRefused, NoPrincipal) as refused:
                log.info("the schema registry refuses a login from %s: %s", host, refused)
            content = json.dumps({"error_code": status, "message": why}).encode()
            headers = [
                (b"content-length", str(len(content)).encode()),
                (b"content-type", b"application/json"),
                (b"cache-control", b"no-store"),
            ]
            if status == 401:
                headers += [
                    (b"www-authenticate", f'{one} realm="kwire"'.encode()) for one in self._schemes
                ]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": content})

        return asked_for_login

    async def _principal(self, scope: Scope, image: MetadataImage) -> Principal:
        """Who asks; LoginRefused, NoPrincipal."""
        if self._listener.settings.is_sasl:
            headers = [value for name, value in scope["headers"] if name == b"authorization"]
            if len(headers) != 1:
                raise LoginRefused("the request has no login")
            return (await self._identity(headers[0], scope["client"][0], image)).principal
        tls = self._listener.tls(self._steady_ms() / 1000)
        assert tls is not None, "the listener has TLS or logins"
        return tls.principal(scope[TLS])

    async def _identity(self, header: bytes, host: str, image: MetadataImage) -> Identity:
        """Who has logged in; LoginRefused."""
        found = hashlib.blake2b(header, key=self._secret, digest_size=32).digest()
        credentials = image.scram_credentials
        identity = self._known_identity(found, credentials)
        if identity is not None:
            return identity
        turn = self._turns.setdefault(host, trio.Lock())
        try:
            async with turn:
                identity = self._known_identity(found, credentials)  # from the same host, meanwhile
                return identity or await self._proved(found, header, credentials)
        finally:
            if not turn.locked():
                self._turns.pop(host, None)

    def _known_identity(self, found: bytes, credentials: Credentials) -> Identity | None:
        known = self._known.get(found)
        is_valid = known is not None and known.until_ms > self._steady_ms()
        return known.identity if known and is_valid and known.credentials is credentials else None

    async def _proved(self, found: bytes, header: bytes, credentials: Credentials) -> Identity:
        """Who logs in with a header, which is known by ``found`` from now on; LoginRefused."""
        now_ms, steady_ms = self._now_ms(), self._steady_ms()
        identity = await self._threads.run(log_in, header, self._listener.mechanisms, now_ms)
        problem = problem_of_string(identity.principal.name)
        if problem is not None:
            raise LoginRefused(f"the name {printable(identity.principal.name)} {problem}")
        until_ms = steady_ms + KNOWN_MS
        if identity.expires_ms is not None:
            until_ms = min(until_ms, steady_ms + identity.expires_ms - now_ms)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[found] = _Known(identity, credentials, until_ms)
        return identity
