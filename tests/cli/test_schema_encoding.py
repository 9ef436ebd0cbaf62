"""``kwire produce --schema``: JSON by the schemas of a registry."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from kwire.cli import main
from kwire.testing.schema_registry import SchemaRegistry
from tests.support.in_process import RunningServer, running_server

run = partial(trio.to_thread.run_sync, main)
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
PROTO = 'syntax = "proto3"; package shop; message Order { int64 id = 1; repeated string tags = 2; }'
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@asynccontextmanager
async def served(tmp_path: Path) -> AsyncIterator[tuple[RunningServer, SchemaRegistry, list[str]]]:
    """A broker with a topic, a registry, and the options that name both."""
    with SchemaRegistry() as registry:
        async with running_server(tmp_path / "data") as server:
            await server.topic("orders")
            broker = ["-b", f"{server.host}:{server.port}"]
            yield server, registry, ["--registry", registry.url, *broker]


def file(path: Path, text: str) -> str:
    """The name of a file with this text."""
    path.write_text(text)
    return str(path)


async def test_values_of_each_type_come_back(tmp_path: Path, capfd) -> None:
    """By files, which are registered, and by the newest schema of a subject; keys as well."""
    async with served(tmp_path) as (server, registry, options):
        await trio.to_thread.run_sync(registry.set_compatibility, "NONE")
        lines = {
            "o.avsc": (json.dumps(ORDER), '{"id": "a"}'),
            "o.proto": (PROTO, '{"id": "7", "tags": ["x"]}'),
            "o.json": (json.dumps(SCHEMA), '{ "id": 7 }'),
        }
        for name, (text, line) in lines.items():
            schema, given = file(tmp_path / name, text), file(tmp_path / "lines", line + "\n")
            command = ["produce", "orders", given, "-q", "--schema", schema, *options]
            assert await run(command) == 0, capfd.readouterr().err
        await trio.to_thread.run_sync(registry.register, "keys", '"string"')
        keyed = file(tmp_path / "lines", '"k"|{"id": 8}\n')
        named = ["--schema", "orders-value", "--key-schema", "keys", "-K", "|"]
        assert await run(["produce", "orders", keyed, "-q", *named, *options]) == 0
        values = [record.value or b"" for record in await server.records("orders")]
        assert [int.from_bytes(one[1:5], "big") for one in values] == [1, 2, 3, 3]
        assert values[0][5:] == b"\x02a"
        assert values[1][5:] == b"\0\x08\x07\x12\x01x"
        assert values[2][5:] == b'{ "id": 7 }'
        capfd.readouterr()
        read = ["consume", "orders", "--from-beginning", "--exit", "--json", *options]
        assert await run(read) == 0
        rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        assert [json.loads(row["value"]) for row in rows] == [
            {"id": "a"},
            {"id": "7", "tags": ["x"]},
            {"id": 7},
            {"id": 8},
        ]
        assert rows[3]["key"] == '"k"'


async def test_the_first_value_that_does_not_fit_is_told(tmp_path: Path, capfd) -> None:
    """With its line; those before it are written, and none after it."""
    wrong = {
        "o.avsc": (json.dumps(ORDER), '{"id": 7}', "id: 7 is not a text"),
        "o.proto": (PROTO, '{"price": 7}', "it is no message shop.Order"),
        "o.json": (json.dumps(SCHEMA), '{"id": "x"}', "is not of type"),
    }
    async with served(tmp_path) as (server, registry, options):
        await trio.to_thread.run_sync(registry.set_compatibility, "NONE")
        for name, (text, line, problem) in wrong.items():
            right = '{"id": "1"}' if name != "o.json" else '{"id": 1}'
            given = file(tmp_path / "lines", f"{right}\n{line}\n{right}\n")
            schema = file(tmp_path / name, text)
            command = ["produce", "orders", given, "-q", "--schema", schema, *options]
            assert await run(command) == 1
            told = capfd.readouterr().err
            assert "line 2: its value doesn't fit the schema: " in told
            assert problem in told
            assert "1 records written" in told
        assert await server.end_offset("orders") == 3


async def test_schemas_that_are_not_there(tmp_path: Path, capfd) -> None:
    """One line each, before anything is read or written."""
    broken = file(tmp_path / "broken.avsc", "{")
    async with served(tmp_path) as (server, _, options):
        for schema, problem in (("orders-value", "not found"), (broken, "Invalid schema")):
            lines = file(tmp_path / "lines", "{}\n")
            command = ["produce", "orders", lines, "--schema", schema, *options]
            assert await run(command) == 1
            assert problem in capfd.readouterr().err
        assert await server.end_offset("orders") == 0
