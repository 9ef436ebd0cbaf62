"""The limits of every HTTP request: the host it names, its length, and its time.

Rules:

- The Host header must name an IP address, ``localhost``, or one of ``kwire.http.allowed.hosts``,
  with a port or without, and nothing else.
  Otherwise any web page could make a browser read this port under a name of its own (DNS
  rebinding). Any IP address is allowed, because addresses can't be rebound, and because the address
  may be that of the machine around a container.
- A request's body has at most ``max_body_bytes``, and is there before anything is answered: a
  connection on which an answer overtakes the rest of its request has to be closed, and the client
  that uses it again would fail. An answer takes at most ``REQUEST_S``, the body's time included.
- No answer may be shown inside another site's page, guessed to be of another type, or stored.
- A bug in a page is logged and answered with status 500; the broker goes on.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, TypeAlias

import trio

from kwire.web.cross_loop_calls import NotServing

log = logging.getLogger(__name__)

_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:/?#@\[\]\\]+))(?::[0-9]{0,5})?")
"""RFC 9110, 7.2. What a stranger adds to a host or its port, proxies and browsers may read as part
of the host."""

MAX_BODY_BYTES = 64 * 1024
REQUEST_S = 30.0

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = (
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


class TooLong(Exception):
    """The body of a request is longer than it may be."""


class Guard:
    """The ASGI application around ``app``."""

    def __init__(
        self,
        app: App,
        allowed_hosts: Iterable[str] = (),
        *,
        max_body_bytes: int = MAX_BODY_BYTES,
        hosts_setting: str = "kwire.http.allowed.hosts",
    ) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._hosts_setting = hosts_setting
        self._allowed = {host.lower() for host in allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and pass it on."""
        has_begun = False

        async def send_guarded(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)
            has_begun = True  # a head that is no HTTP has raised, and another one may follow

        refusal = self._refusal(scope)
        if refusal is None:
            with trio.move_on_after(REQUEST_S) as limit:
                refusal = await self._pass_on(scope, receive, send_guarded)
            if limit.cancelled_caught:
                refusal = _text(503, f"no answer within {REQUEST_S:g} s")
        if refusal is not None and not has_begun:
            await refusal(scope, receive, send_guarded)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> App | None:
        """Pass a request to the application; returns the answer to give if that fails."""
        try:
            await self._app(scope, await _with_body(receive, self._max_body_bytes), send)
        except NotServing as error:
            return _text(503, str(error))
        except TooLong:
            return _too_long(self._max_body_bytes)
        except Exception as error:
            log.error("bug in the HTTP port, %s", ascii(scope["path"])[1:-1], exc_info=error)
            return _text(500, "a bug in kwire; the broker's log has it")
        return None

    def _refusal(self, scope: Scope) -> App | None:
        """The answer to a request that isn't passed on."""
        headers = dict(scope["headers"])
        header = headers.get(b"host", b"").decode("latin-1")
        host = _host(header)
        shown = host or header[:80] or "no host"
        if host not in self._allowed and not _is_this_machine(host):
            return _text(
                403,
                f"the Host header names {shown!r}, which this port doesn't serve: dial "
                f"the broker by its address, or add the name to {self._hosts_setting}",
            )
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > 9 or int(length) > self._max_body_bytes:
            return _too_long(self._max_body_bytes)
        return None


@lru_cache(256)
def _host(header: str) -> str:
    """The host of ``HOST``, ``HOST:PORT``, or ``[IPv6]:PORT``, in small letters; else empty."""
    found = _HOST.fullmatch(header)
    return (found[1] or found[2]).lower() if found else ""


@lru_cache(256)
def _is_this_machine(host: str) -> bool:
    """Whether it is ``localhost`` or an address, which nobody else can give to a browser."""
    if host == "localhost":
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _with_body(receive: Receive, max_body_bytes: int) -> Receive:
    """``receive`` once the whole body has come, which it gives at once; TooLong."""
    body = bytearray()
    message = await receive()
    while message["type"] == "http.request":
        body += message.get("body", b"")
        if len(body) > max_body_bytes:
            raise TooLong
        if not message.get("more_body"):
            message = {"type": "http.request", "body": bytes(body)}
            break
        message = await receive()
    came: list[Message] = [message]  # the request, or that the client has left

    async def with_body() -> Message:
        return came.pop() if came else await receive()

    return with_body


def _too_long(max_body_bytes: int) -> App:
    return _text(413, f"a request's body may have {max_body_bytes} bytes")


def _text(status: int, text: str) -> App:
    content = (text + "\n").encode()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-length", str(len(content)).encode()),
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    return answer
