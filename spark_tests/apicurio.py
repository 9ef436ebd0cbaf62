"""Lets Apicurio's converters for Connect write their schemas into kwire's registry for tests.

Their client speaks an API of its own (``/apis/registry/v2``), of which a converter that writes
needs one request: it registers a schema as the artifact ``TOPIC-key`` or ``TOPIC-value``. Here that
is the subject of the same name, and the artifact's id is the schema's. With these
settings records have Confluent's wire format, with this id.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kwire.testing.schema_registry import SchemaRegistry

_ARTIFACTS = "/apis/registry/v2/groups/default/artifacts"


@contextmanager
def apicurio(registry: SchemaRegistry) -> Iterator[str]:
    """The URL of Apicurio's API on a registry, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        """One connection."""

        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

        def do_POST(self) -> None:
            """Register the schema of the body."""
            schema = self.rfile.read(int(self.headers["Content-Length"])).decode()
            assert self.path.partition("?")[0] == _ARTIFACTS, self.path
            name, kind = (self.headers[f"X-Registry-Artifact{one}"] for one in ("Id", "Type"))
            found = registry.register(name, schema, kind)
            about = {"id": name, "type": kind, "globalId": found, "contentId": found}
            body = json.dumps({**about, "version": "1", "state": "ENABLED"}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/apis/registry/v2"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def avro_converters(url: str) -> dict[str, str]:
    """The settings of a connector whose keys and values become Avro, with schemas at ``url``."""
    options = {
        "": "io.apicurio.registry.utils.converter.AvroConverter",
        ".apicurio.registry.url": url,
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.headers.enabled": "false",
    }
    return {
        f"{part}.converter{name}": value
        for part in ("key", "value")
        for name, value in options.items()
    }
