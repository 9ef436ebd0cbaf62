"""kwire's schema registry in the test's process, with its schemas in memory.

Example::

    with SchemaRegistry() as registry:
        number = registry.register("orders-value", '"string"')
        application.run(registry=registry.url)

As a program it serves until it is stopped::

    python -m kwire.testing.schema_registry --port 8081

Rules:

- It is the registry of ``kwire serve --registry``, but for the topic: what it has is gone when the
  block ends. ``stop`` and ``start`` keep it. It needs the extra ``registry``.
- With ``fail_with`` it answers every request with an error.
- No two registries of a process have the same free port. Clients remember what an id means at an
  address for as long as they live, and another registry gives the same ids to other schemas.
"""

import argparse
import json
import socket
import ssl
import threading
import urllib.request
from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import trio

from kwire.registry.changes import Registration, register
from kwire.registry.journal import MemoryJournal
from kwire.registry.names import split_subject
from kwire.registry.records import Reference, Schema, SchemaValue
from kwire.registry.state import mark
from kwire.web.port_thread import bind

if TYPE_CHECKING:
    from kwire.web.guard import Receive, Scope, Send

MOST_CONNECTIONS = 256
START_TIMEOUT_S = 30.0
"""The first start imports h11."""

_ports_given: set[int] = set()
"""The free ports that registries of this process had."""


class SchemaRegistry:
    """A registry on a free port of 127.0.0.1, or on the one given.

    With user and password, or with a token, it answers nobody without them; with ``tls`` it speaks
    HTTPS. ``requests`` lists the requests, as ``GET /subjects``.
    """

    def __init__(
        self,
        port: int = 0,
        user: str = "",
        password: str = "",
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[str] = []
        self.fail_with = 0
        """The status of all answers; 0 stands for normal answers."""
        self.credentials = ""
        if user:
            self.credentials = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
        if token:
            self.credentials = f"Bearer {token}"
        self._tls = tls
        self._port = port
        self._journal = MemoryJournal()
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._stop: trio.Event | None = None
        self._is_serving = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; the same port again after ``stop``."""
        bound = _bound(self._port)
        self._port = bound.getsockname()[1]
        self._is_serving.clear()
        self._thread = threading.Thread(
            target=trio.run, args=(self._serve, bound), name="kwire-schema-registry", daemon=True
        )
        self._thread.start()
        if not self._is_serving.wait(START_TIMEOUT_S):
            raise TimeoutError("the schema registry doesn't start")

    def stop(self) -> None:
        """Close the port and all connections; the schemas stay."""
        if self._thread is None or self._token is None or self._stop is None:
            return
        self._token.run_sync_soon(self._stop.set)
        self._thread.join()
        self._thread = None

    @property
    def url(self) -> str:
        """http://HOST:PORT or https://HOST:PORT, without user and password."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self._port}"

    def register(
        self,
        subject: str,
        text: str,
        kind: str = "AVRO",
        references: Sequence[dict[str, Any]] = (),
    ) -> int:
        """Register a schema; its id."""
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        return int(self.ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body)["id"])

    def keep(
        self,
        subject: str,
        text: str,
        kind: str = "AVRO",
        references: Sequence[dict[str, Any]] = (),
    ) -> int:
        """Keep a schema that nobody has looked at, as another registry may have one; its id."""
        assert self._token is not None, "the registry serves"
        return trio.from_thread.run(
            self._keep, subject, text, kind, references, trio_token=self._token
        )

    async def _keep(
        self, subject: str, text: str, kind: str, references: Sequence[dict[str, Any]]
    ) -> int:
        state = self._journal.state
        uses = tuple(Reference(**one) for one in references)
        asked = Registration(subject, Schema(kind, text, uses))
        records = register(state, asked, state.find(split_subject(subject)[0], mark(asked.schema)))
        await self._journal.append(records)
        written = records[-1].value
        assert isinstance(written, SchemaValue)
        return written.id

    def set_compatibility(self, level: str, subject: str = "") -> None:
        """Set the level of a subject, or of all."""
        path = f"/config/{quote(subject, safe='')}" if subject else "/config"
        self.ask("PUT", path, {"compatibility": level})

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to a request, as its JSON; AssertionError for an error."""
        assert self._tls is None, "a registry with TLS is asked by the test's own client"
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        if self.credentials:
            request.add_header("Authorization", self.credentials)
        content = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, content) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            raise AssertionError(f"{method} {path}: {error.code} {said}") from None

    async def _serve(self, bound: socket.socket) -> None:
        from kwire.registry.app import MAX_BODY_BYTES, RegistryApp
        from kwire.registry.registry import Registry
        from kwire.web.connections import Connections
        from kwire.web.guard import Guard

        app = _Watched(self, RegistryApp(Registry(self._journal)))
        guarded = Guard(app, max_body_bytes=MAX_BODY_BYTES)
        self._stop, self._token = trio.Event(), trio.lowlevel.current_trio_token()
        self._is_serving.set()
        try:
            tls = None if self._tls is None else partial(_same, self._tls)
            await Connections(guarded, bound, MOST_CONNECTIONS, tls).serve(self._stop)
        finally:
            bound.close()


def _same(tls: ssl.SSLContext) -> ssl.SSLContext:
    return tls


class _Watched:
    """The application, which notes requests, asks for the login, and fails as it is told."""

    def __init__(self, owner: SchemaRegistry, app: Any) -> None:
        self._owner = owner
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        owner = self._owner
        path = scope["raw_path"].decode("latin-1").partition("?")[0]
        owner.requests.append(f"{scope['method']} {path}")
        given = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        status, why = owner.fail_with, "told to fail"
        if not status and owner.credentials and given != owner.credentials:
            status, why = 401, "Unauthorized"
        if not status:
            await self._app(scope, receive, send)
            return
        content = json.dumps({"error_code": status, "message": why}).encode()
        headers = [(b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def _bound(port: int) -> socket.socket:
    """A listening socket; with 0, on a port that no registry of this process had before."""
    passed_over = []
    while True:
        bound = bind(("127.0.0.1", port), "the schema registry", "another port")
        if port or (found := bound.getsockname()[1]) not in _ports_given:
            break
        passed_over.append(bound)  # closed when another one is found, so that it is another one
    if not port:
        _ports_given.add(found)
    for one in passed_over:
        one.close()
    return bound


def main() -> None:
    """Serve until the program is interrupted."""
    parser = argparse.ArgumentParser(description="A schema registry in memory.")
    parser.add_argument("--port", type=int, default=8081)
    parser.add_argument("--user", default="")
    parser.add_argument("--password", default="")
    options = parser.parse_args()
    with SchemaRegistry(options.port, options.user, options.password) as registry:
        print(f"schema registry on {registry.url}; what it holds is gone when it stops", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
