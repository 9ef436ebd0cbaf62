"""``kwire schemas``, against a registry: what it lists, registers, checks and compares."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.cli import main
from kwire.testing.schema_registry import SchemaRegistry
from tests.support.ports import free_port

MISSING = "field 'price' of record Order has no default, and the old schema has no such field"


def order(*fields: str, **defaults: str) -> str:
    """A record of texts; ``defaults`` are fields with a default."""
    listed = [{"name": name, "type": "string"} for name in fields]
    listed += [{"name": name, "type": "string", "default": one} for name, one in defaults.items()]
    return json.dumps({"type": "record", "name": "Order", "fields": listed})


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """A registry with two versions of ``orders-value``."""
    with SchemaRegistry() as running:
        running.register("orders-value", order("id"))
        running.register("orders-value", order("id", note=""))
        yield running


@pytest.fixture
def at(registry: SchemaRegistry) -> list[str]:
    """The options that name the registry."""
    return ["--registry", registry.url]


def file(directory: Path, text: str, name: str = "order.avsc") -> str:
    """The name of a file with this text."""
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_list_and_get(at, capsys):
    """The newest version of each subject, and the text of one version, also by its id."""
    assert main(["schemas", "list", "--json", *at]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == [{"subject": "orders-value", "version": 2, "type": "AVRO", "id": 2}]
    for which in (["orders-value"], ["orders-value", "--version", "2"], ["--id", "2"]):
        assert main(["schemas", "get", *which, *at]) == 0
        assert json.loads(capsys.readouterr().out) == json.loads(order("id", note=""))
    assert main(["schemas", "get", "none-value", *at]) == 1
    assert "answers 404" in capsys.readouterr().err
    assert main(["schemas", "get", *at]) == 1
    assert "name a subject, or give --id" in capsys.readouterr().err


def test_a_registry_that_is_not_there(capsys):
    """The error is one line that says what to do."""
    port = free_port()
    assert main(["schemas", "list", "--registry", f"http://127.0.0.1:{port}"]) == 1
    assert capsys.readouterr().err == (
        f"kwire: cannot connect to http://127.0.0.1:{port}: connection refused; serve a registry "
        "with kwire serve --registry 127.0.0.1:8081, or name a running one with --registry URL\n"
    )


def test_register(at, tmp_path, capsys):
    """It prints the id; the type is the file's, or given."""
    name = file(tmp_path, order("id", note="", more=""))
    assert main(["schemas", "register", "orders-value", name, *at]) == 0
    assert capsys.readouterr().out == "3\n"
    other = file(tmp_path, '{"type": "object"}', "thing.txt")
    assert main(["schemas", "register", "things", other, *at]) == 1
    assert "give --type" in capsys.readouterr().err
    assert main(["schemas", "register", "things", other, "--type", "json", *at]) == 0


def test_check_says_what_would_break_and_for_whom(at, tmp_path, capsys):
    """By the level of the subject; nothing is registered."""
    good = file(tmp_path, order("id", more=""))
    assert main(["schemas", "check", "orders-value", good, *at]) == 0
    assert "orders-value can take it: BACKWARD holds with 1 of" in capsys.readouterr().out
    bad = file(tmp_path, order("id", "price"))
    assert main(["schemas", "check", "orders-value", bad, *at]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "readers with this schema can't read data of version 2:",
        f"  /fields/1: {MISSING} (READER_FIELD_MISSING_DEFAULT_VALUE)",
    ]
    assert main(["schemas", "check", "new-value", bad, *at]) == 0
    assert "this one would be the first" in capsys.readouterr().out
    broken = file(tmp_path, "{")
    assert main(["schemas", "check", "orders-value", broken, *at]) == 1
    assert "it is no JSON" in capsys.readouterr().err


def test_diff_shows_lines_and_both_directions(registry, at, capsys):
    """Changed lines, then what readers with each version can't read of the other's data."""
    registry.set_compatibility("NONE", "loose-value")
    registry.register("loose-value", order("id"))
    registry.register("loose-value", order("id", "price"))
    assert main(["schemas", "diff", "loose-value", "1", "2", *at]) == 0
    said = capsys.readouterr().out
    assert '+      "name": "price",' in said
    assert (
        "readers with version 2 can't read data of version 1:\n  /fields/1: field 'price'" in said
    )
    assert "readers with version 1 can't" not in said
    assert main(["schemas", "diff", "orders-value", "1", "2", *at]) == 0
    assert "readers with either version can read" in capsys.readouterr().out


def test_references(registry, at, tmp_path, capsys):
    """A schema that uses another is checked with it."""
    name = file(
        tmp_path, '{"type": "record", "name": "Cart", "fields": [{"name": "a", "type": "Order"}]}'
    )
    used = ["--reference", "Order=orders-value:2"]
    assert main(["schemas", "register", "carts", name, *used, *at]) == 0
    assert main(["schemas", "check", "carts", name, *used, *at]) == 0
    assert main(["schemas", "check", "carts", name, *at]) == 1
    assert "the type Order is defined nowhere" in capsys.readouterr().err
    assert main(["schemas", "check", "carts", name, "--reference", "x", *at]) == 1
    assert "--reference x is not NAME=SUBJECT:VERSION" in capsys.readouterr().err
