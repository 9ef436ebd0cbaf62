"""Records by the schemas of a registry, and what the page says without them."""

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trio

from kwire.schemas.readable import MAX_VALUE_BYTES
from kwire.schemas.registry import JSON, PROTOBUF
from kwire.schemas.wire_format import header
from kwire.testing.schema_registry import SchemaRegistry
from kwire.web.page import reading, records, schemas
from tests.web.conftest import http_server
from tests.web.page_data import Item, produce

SETTING = "kwire.http.schema.registry.url"
ORDER = json.dumps(
    {
        "type": "record",
        "name": "shop.Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}],
    }
)
PORTO = b"\x0e\x0aPorto"
"""An order with the id 7."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page waits for the registry as long as it takes on a busy machine."""
    monkeypatch.setattr(schemas, "WAIT_S", 60.0)
    monkeypatch.setattr(schemas, "ASK_S", 60.0)


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """A registry."""
    with SchemaRegistry() as running:
        yield running


async def page(tmp_path: Path, settings: dict[str, str], items: list[Item], query: str = "") -> str:
    """The page of the records of a new topic with these records."""
    async with http_server(tmp_path, settings) as (running, http):
        await running.topic("orders")
        await produce(await running.connect(), "orders", items)
        return await text_of(http, query)


async def text_of(http: httpx.AsyncClient, query: str = "") -> str:
    """The page of the records of the topic."""
    answer = await http.get(f"/records?topic=orders&{query}")
    assert answer.status_code == 200, answer.text
    return answer.text


async def test_keys_and_values_stand_as_their_schemas_say(
    tmp_path: Path, registry: SchemaRegistry
) -> None:
    """Of records of one topic with several formats; the form for bytes still shows the bytes."""
    start = header(registry.register("orders-value", ORDER))
    in_json = header(registry.register("j", '{"title": "Bill", "type": "object"}', JSON))
    key = header(registry.register("orders-key", '"string"')) + b"\x06abc"
    items: list[Item] = [(key, start + PORTO, ()), (None, in_json + b'{"sum": 9}', ())]
    async with http_server(tmp_path, {SETTING: registry.url}) as (running, http):
        await running.topic("orders")
        await produce(await running.connect(), "orders", items)
        text = await text_of(http)
        assert "Avro shop.Order, schema 1" in text
        assert "{ &#34;id&#34;: 7, &#34;city&#34;: &#34;Porto&#34; }" in text
        assert "JSON Schema Bill, schema 2" in text
        assert "Avro string, schema 3" in text
        assert "Values without their schema" not in text
        asked = len(registry.requests)
        assert "Porto" in await text_of(http, "format=confluent&count=1")
        assert "0e 0a 50 6f 72 74 6f" in await text_of(http, "format=hex")
        assert len(registry.requests) == asked, "a schema is asked for once"


async def test_a_value_that_is_none_of_its_schema(tmp_path: Path, registry: SchemaRegistry) -> None:
    """It stands as bytes, with the reason; other records are shown."""
    start = header(registry.register("orders-value", ORDER))
    items: list[Item] = [
        (None, start + PORTO + b"\x00", ()),
        (None, start + PORTO, ()),
        (None, header(99) + PORTO, ()),
        (None, start + bytes(MAX_VALUE_BYTES), ()),
    ]
    text = await page(tmp_path, {SETTING: registry.url}, items)
    assert text.count("Not read by its schema: ") == 3
    assert "value: 1 bytes are left over: another schema wrote it" in text
    assert "Values without their schema: registry: " in text
    assert "asked for schema id 99, answers 404" in text
    assert "the page doesn&#39;t read a value of this length by its schema" in text
    assert text.count("Avro shop.Order, schema 1") == 2  # the preview, and the details


async def test_a_page_decodes_so_many_bytes_at_most(
    tmp_path: Path, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer values than the list keeps are decoded as well, but not all of a page."""
    monkeypatch.setattr(reading, "FRAMED_BYTES", 50_000)
    start = header(registry.register("orders-value", '"bytes"'))
    value = start + b"\x80\x71" + bytes(7232)
    text = await page(tmp_path, {SETTING: registry.url}, [(None, value, ())] * 10, "count=50")
    assert text.count("Avro bytes, schema 1") == 2 * (50_000 // len(value))
    assert text.count("Not read by its schema") == 10 - 50_000 // len(value)


async def test_the_time_of_a_page_is_limited(
    tmp_path: Path, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What isn't decoded by then stands as bytes."""
    monkeypatch.setattr(schemas, "DECODE_S", -1.0)
    start = header(registry.register("orders-value", ORDER))
    text = await page(tmp_path, {SETTING: registry.url}, [(None, start + PORTO, ())])
    assert "value: the time of the page is over" in text


async def test_a_registry_that_is_away(tmp_path: Path) -> None:
    """The page has the bytes and the reason, without a password."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    settings = {SETTING: url, "kwire.http.schema.registry.basic.auth.user.info": "page:geheim"}
    text = await page(tmp_path, settings, [(None, header(1) + PORTO, ())])
    assert f"Values without their schema: registry: no answer from {url}" in text
    assert "schema 1, hex" in text
    assert "geheim" not in text


async def test_a_registry_that_hangs_stalls_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page gives up, and the broker serves meanwhile."""
    monkeypatch.setattr(schemas, "WAIT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with http_server(tmp_path, {SETTING: url}) as (running, http):
            await running.topic("orders")
            await produce(await running.connect(), "orders", [(None, header(1) + PORTO, ())])
            for _ in range(2):  # while the first one's thread asks, the second one doesn't wait
                text = await text_of(http)
                assert "registry: it hasn&#39;t answered yet; ask again" in text
                assert "<div data-live data-again>" in text  # the script asks again
                monkeypatch.setattr(schemas, "WAIT_S", 600.0)
            assert await running.end_offset("orders") == 1


async def test_a_search_reads_values_by_their_schema(
    tmp_path: Path, registry: SchemaRegistry
) -> None:
    """Their texts and their fields, also with the first question that needs a schema."""
    start = header(registry.register("orders-value", ORDER))
    key = header(registry.register("orders-key", '"string"')) + b"\x06abc"
    items: list[Item] = [
        (key, start + PORTO, ()),
        (None, start + b"\x10\x08Oslo", ()),
        (None, b'{"id": 7, "city": "Bern"}', ()),
        (None, start + b"\x0e", ()),
    ]
    async with http_server(tmp_path, {SETTING: registry.url}) as (running, http):
        await running.topic("orders")
        await produce(await running.connect(), "orders", items)
        for query, found in (
            ("where=city = Porto", 1),
            ("where=id = 7", 2),
            ("where=id >= 7", 3),
            ('search="CITY": "oslo"', 1),
            ('search="city"&in=value', 3),
            ("search=%22abc%22&in=key", 1),
            ("where=city = Porto&format=text", 0),
        ):
            text = await text_of(http, query)
            assert f"{found} found in" in text, query
            assert "Values without their schema" not in text


async def test_a_search_says_what_it_could_not_read(
    tmp_path: Path, registry: SchemaRegistry
) -> None:
    """Values whose schemas the registry doesn't give are searched as bytes."""
    items: list[Item] = [(None, header(99) + PORTO, ()), (None, b"Porto", ())]
    text = await page(tmp_path, {SETTING: registry.url}, items, "search=lisboa")
    assert "0 found in" in text
    assert "some were searched as bytes only, because their schema is missing" in text
    assert "data-again" not in text  # to search anew is the user's to decide


async def test_a_login_and_a_message_without_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says in one line what to install."""
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    with SchemaRegistry(user="page", password="geheim") as registry:
        text_of_schema = 'syntax = "proto3"; message Order { int64 id = 1; }'
        kept = await trio.to_thread.run_sync(
            registry.keep, "orders-value", text_of_schema, PROTOBUF
        )
        start = header(kept, (0,))
        settings = {
            SETTING: registry.url,
            "kwire.http.schema.registry.basic.auth.user.info": "page:geheim",
        }
        text = await page(tmp_path, settings, [(None, start + b"\x08\x07", ())])
    assert "needs the package grpcio-tools" in text
    assert "pip install -e &#39;.[schemas]&#39;" in text


async def test_without_a_registry_the_page_asks_nobody(tmp_path: Path) -> None:
    """A frame is shown as before."""
    text = await page(tmp_path, {}, [(None, header(1) + b'{"a": 1}', ())])
    assert "schema 1, json" in text
    assert "Not read by its schema" not in text


async def test_a_page_has_room_for_so_much_at_most(
    tmp_path: Path, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few bytes may stand for long texts; names of types may hide what follows them."""
    monkeypatch.setattr(schemas, "MAX_PAGE_CHARS", 0)
    start = header(registry.register("orders-value", '{"title": "\\u202eBill"}', JSON))
    text = await page(tmp_path, {SETTING: registry.url}, [(None, start + b"[1]", ())] * 2)
    assert text.count("value: the room of the page is over") == 1
    assert text.count("JSON Schema \ufffdBill, schema 1") == 2  # the preview, and the details


async def test_errors_name_the_settings_of_the_page(tmp_path: Path) -> None:
    """And not those of a pipeline, which the same client serves."""
    with SchemaRegistry(user="page", password="geheim") as registry:
        settings = {
            SETTING: registry.url,
            "kwire.http.schema.registry.basic.auth.user.info": "page:falsch",
        }
        text = await page(tmp_path / "a", settings, [(None, header(1) + PORTO, ())])
        assert "answers 401" in text
        assert "; see kwire.http.schema.registry.basic.auth.user.info" in text
    settings = {
        SETTING: "https://127.0.0.1:1",
        "kwire.http.schema.registry.ssl.ca.location": str(tmp_path / "none.pem"),
    }
    text = await page(tmp_path / "b", settings, [(None, header(1) + PORTO, ())])
    assert "registry: kwire.http.schema.registry.ssl.ca.location: " in text


async def test_what_has_no_schema_is_cut_as_without_a_registry(
    tmp_path: Path, registry: SchemaRegistry
) -> None:
    """Any bytes may begin as values with a schema do, and hex takes five times their length."""
    items: list[Item] = [(bytes(9000), bytes(30_000), ())] * 20
    async with http_server(tmp_path, {SETTING: registry.url}) as (running, http):
        await running.topic("orders")
        await produce(await running.connect(), "orders", items)
        text = await text_of(http, "count=100")
        assert text.count("The beginning of ") == 20
        assert len(text) < 20 * 5 * (2 * records.PAGE_BYTES // 100) + 50_000
        whole = await text_of(http, "count=1")
        assert "The beginning of" not in whole
        assert "00752f" not in whole  # after the header, 29,995 bytes are left
        assert "007520" in whole
