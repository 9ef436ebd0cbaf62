"""A small schema registry in memory, for tests and for trying things out.

It answers as Confluent's does: subjects, versions, schemas by id, references, a look-up of a
schema, compatibility, modes of deletion. As a program it serves until it is stopped::

    python -m kwire.testing.registry --port 8081

and in a test::

    with SchemaRegistry() as registry:
        number = registry.register("orders-value", '"string"')
        application.run(registry=registry.url)

Rules:

- The same schema (as text without spaces and order, with the same references) has the same id
  under all subjects. Ids count from 1.
- Compatibility is checked for Avro's records and JSON's objects only as far as a field goes: with
  BACKWARD (the default) a new field needs a default, and a field keeps its type. NONE accepts all.
- It keeps no data when it stops. With ``fail_with`` it answers every request with an error.
- No two registries of a process have the same free port. Clients remember what an id means at an
  address for as long as they live, and another registry gives the same ids to other schemas.
"""

import argparse
import json
import re
import socket
import ssl
import threading
from base64 import b64encode
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from kwire.testing.registry_store import Refused, SchemaStore

_MAX_BODY_BYTES = 4 << 20

_ports_given: set[int] = set()
"""The free ports that registries of this process had."""

_ROUTES: list[tuple[str, str, str]] = [
    ("GET", r"/", "root"),
    ("GET", r"/subjects", "subjects"),
    ("GET", r"/subjects/([^/]+)/versions", "versions"),
    ("POST", r"/subjects/([^/]+)/versions", "register"),
    ("GET", r"/subjects/([^/]+)/versions/([^/]+)", "version"),
    ("GET", r"/subjects/([^/]+)/versions/([^/]+)/schema", "text"),
    ("DELETE", r"/subjects/([^/]+)", "delete"),
    ("DELETE", r"/subjects/([^/]+)/versions/([^/]+)", "delete_version"),
    ("POST", r"/subjects/([^/]+)", "look_up"),
    ("GET", r"/schemas/types", "types"),
    ("GET", r"/schemas/ids/(\d+)", "by_id"),
    ("GET", r"/schemas/ids/(\d+)/versions", "where"),
    ("GET", r"/config", "config"),
    ("PUT", r"/config", "configure"),
    ("GET", r"/config/([^/]+)", "config"),
    ("PUT", r"/config/([^/]+)", "configure"),
    ("POST", r"/compatibility/subjects/([^/]+)/versions/([^/]+)", "compatible"),
]


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
        self.store = SchemaStore()
        self.requests: list[str] = []
        self.fail_with = 0
        """The status of all answers; 0 stands for normal answers."""
        self.credentials = f"Basic {_basic(user, password)}" if user else ""
        if token:
            self.credentials = f"Bearer {token}"
        self._tls = tls
        self._port = port
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self.connections: set[socket.socket] = set()
        """The open connections, which clients keep for their next request."""

    def __enter__(self) -> "SchemaRegistry":
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
        registry = self

        class Handler(_Handler):
            """Answers for this registry."""

            owner = registry

        self._server = _listen(self._port, Handler)
        self._server.daemon_threads = True
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.daemon = True
        self._thread.start()

    def stop(self) -> None:
        """Close the port; the schemas stay."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    @property
    def url(self) -> str:
        """http://HOST:PORT or https://HOST:PORT, without user and password."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self._port}"

    def register(
        self, subject: str, text: str, kind: str = "AVRO", references: list[Any] | None = None
    ) -> int:
        """Register a schema; its id."""
        body = {"schema": text, "schemaType": kind, "references": references or []}
        return int(self.store.register(subject, body)["id"])


def _listen(port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """A server on a port; with 0, on a free one that no registry of this process had before."""
    if port:
        return ThreadingHTTPServer(("127.0.0.1", port), handler)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    had_before = server.server_address[1] in _ports_given
    _ports_given.add(server.server_address[1])
    if not had_before:
        return server
    try:
        return _listen(0, handler)  # before this one is closed, so that it is another port
    finally:
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    owner: SchemaRegistry
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        """Note the connection."""
        super().setup()
        self.owner.connections.add(self.connection)

    def finish(self) -> None:
        """Forget the connection."""
        self.owner.connections.discard(self.connection)
        super().finish()

    def log_message(self, *arguments: object) -> None:
        """Log nothing: tests don't need a line for each request."""

    def do_GET(self) -> None:
        """Answer."""
        self._answer("GET")

    def do_POST(self) -> None:
        """Answer."""
        self._answer("POST")

    def do_PUT(self) -> None:
        """Answer."""
        self._answer("PUT")

    def do_DELETE(self) -> None:
        """Answer."""
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(min(length, _MAX_BODY_BYTES))
        parts = urlsplit(self.path)
        self.owner.requests.append(f"{method} {parts.path}")
        try:
            self._check()
            body = json.loads(raw) if raw else {}
            self._send(200, self._route(method, parts.path, body, parse_qs(parts.query)))
        except Refused as error:
            body = {"error_code": error.code, "message": error.message}
            self._send(error.status, body)
        except ValueError:
            self._send(400, {"error_code": 400, "message": "the body is no JSON"})

    def _check(self) -> None:
        if self.owner.fail_with:
            raise Refused(self.owner.fail_with, self.owner.fail_with, "told to fail")
        given = self.headers.get("Authorization", "")
        if self.owner.credentials and given != self.owner.credentials:
            raise Refused(401, 401, "Unauthorized")

    def _route(self, method: str, path: str, body: Any, query: dict[str, list[str]]) -> Any:
        for verb, pattern, name in _ROUTES:
            found = re.fullmatch(pattern, path.rstrip("/") or "/")
            if found and verb == method:
                arguments = [unquote(one) for one in found.groups()]
                if verb in ("POST", "PUT"):
                    arguments.append(body)
                return getattr(self.owner.store, name)(*arguments)
        raise Refused(404, 404, "HTTP 404 Not Found")

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _basic(user: str, password: str) -> str:
    return b64encode(f"{user}:{password}".encode()).decode()


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
