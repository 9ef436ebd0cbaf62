"""``kwire consume --registry``: keys and values by their schemas."""

import json
from functools import partial
from pathlib import Path

import trio

from kwire.cli import main
from kwire.schemas.wire_format import header
from kwire.testing.schema_registry import SchemaRegistry
from tests.support.in_process import running_server

run = partial(trio.to_thread.run_sync, main)
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}


async def test_values_are_printed_as_json(tmp_path: Path, capfd) -> None:
    """On one line each; what has no schema, or none that fits, stays, and why is said once."""
    with SchemaRegistry() as registry:
        text = registry.register("orders-key", '"string"')
        order = registry.register("orders-value", json.dumps(ORDER))
        async with running_server(tmp_path) as server:
            await server.topic("orders")
            framed = header(text) + b"\x02k", header(order) + b"\x06o\n1"
            cut = header(order) + b"\x06o"
            await server.produce("orders", framed, (b"plain", b"text"), (b"x", cut), (b"y", cut))
            broker = ["-b", f"{server.host}:{server.port}"]
            options = ["--from-beginning", "--exit", "--registry", registry.url]
            assert await run(["consume", "orders", "--json", *options, *broker]) == 0
    out, err = capfd.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["key"], row["value"]) for row in rows[:2]] == [
        ('"k"', '{ "id": "o\\n1" }'),
        ("plain", "text"),
    ]
    assert [row["key"] for row in rows[2:]] == ["x", "y"]
    assert err.count("kwire: not decoded: it is cut off") == 1
