"""Records on the page: by offset, by time, by text, in every format, and within limits."""

import json
import re
from pathlib import Path

import httpx
import pytest

from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.record.compression import Compression
from kwire.record.records import BatchBuilder
from kwire.web.page import reading
from kwire.web.page.record_text import Shown, shown
from tests.support.in_process import RawClient
from tests.support.raw_producer import RawProducer
from tests.web.conftest import http_server
from tests.web.page_data import Item, produce

TIME_MS = 1_700_000_000_000
"""2023-11-14T22:13:20 UTC."""


async def text_of(http: httpx.AsyncClient, parameters: str, status: int = 200) -> str:
    """The page of the topic's records."""
    answer = await http.get(f"/records?topic=orders&{parameters}")
    assert answer.status_code == status, answer.text
    return answer.text


async def orders(client: RawClient, count: int = 300, compression: int = 0) -> None:
    """A topic whose record n has the value ``order n``."""
    await client.topic("orders")
    items = [(b"key-%d" % n, b"order %d." % n, ()) for n in range(count)]
    await produce(client, "orders", items, compression)


def offsets(text: str) -> list[int]:
    """The offsets of the rows."""
    rows = text.split('<th scope="row" class="num">')[1:]
    return [int(row.partition(">")[2].partition("<")[0]) for row in rows]


async def test_the_newest_records_come_first_to_hand(tmp_path: Path) -> None:
    """Without an offset the page shows the end; links lead on from page to page."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await orders(client)
        text = await text_of(http, "")
        assert offsets(text) == list(reversed(range(250, 300)))
        assert "data-follow" in text
        text = await text_of(http, link_of(text, "older"))
        assert offsets(text) == list(reversed(range(200, 250)))
        assert "data-follow" not in text
        text = await text_of(http, "order=oldest&count=20")
        assert offsets(text) == list(range(20))
        assert offsets(await text_of(http, link_of(text, "after"))) == list(range(20, 40))
        assert offsets(await text_of(http, "partition=0&offset=7&count=20&order=newest")) == list(
            reversed(range(8))
        )
        text = await text_of(http, "partition=0&offset=0&count=20")
        assert offsets(text) == list(range(20))
        assert "data-follow" not in text
        assert "offset=20" in link_of(text, "after")
        assert offsets(await text_of(http, "partition=0&offset=290")) == list(range(290, 300))
        assert offsets(await text_of(http, "partition=0&offset=99999999999")) == []
        assert offsets(await text_of(http, "partition=0&offset=-7&count=1")) == [0]
        await client.aclose()


def link_of(text: str, name: str) -> str:
    """The parameters of a link, without the topic."""
    found = re.search(rf'<a [^>]*href="\?topic=orders([^"]*)"[^>]*>{name}', text)
    assert found is not None
    return found[1].replace("&amp;", "&").removeprefix("&")


async def test_records_of_all_partitions_come_by_time(tmp_path: Path) -> None:
    """The newest first, or the oldest; pages lead on without a gap, each partition in its order."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders", 3)
        for n in range(120):
            builder = BatchBuilder()
            builder.add(TIME_MS + n, b"key-%d" % n, b"order %d." % n, ())
            await client.produce_batch("orders", bytes(builder.build()), partition=n * n % 3)
        for order, wanted in (("newest", list(reversed(range(120)))), ("oldest", list(range(120)))):
            parameters, found = f"order={order}&count=20", []
            while True:
                text = await text_of(http, parameters)
                found += [int(n) for n in re.findall(r"<bdi>order (\d+)\.", text)]
                if 'rel="next"' not in text:
                    break
                parameters = link_of(text, "older" if order == "newest" else "after")
            assert found == wanted
        at = f"time={TIME_MS + 50}&count=1"
        assert ">order 50." in await text_of(http, at)
        assert ">order 49." in await text_of(http, at + "&order=newest")
        assert ">order 17." in await text_of(http, "search=key-17")
        await client.aclose()


async def test_of_many_partitions_those_with_the_newest_records_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many a topic has, a page reads a bounded number; it says so."""
    monkeypatch.setattr(reading, "MAX_PARTITIONS", 2)
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders", 4)
        for index in (2, 0, 3, 1):
            builder = BatchBuilder()
            builder.add(TIME_MS + index, None, b"order %d." % index, ())
            await client.produce_batch("orders", bytes(builder.build()), partition=index)
        text = await text_of(http, "")
        assert "The 2 partitions with the newest records" in text
        assert re.findall(r"<bdi>order (\d+)\.", text) == ["3", "2"]
        assert re.findall(r"<bdi>order (\d+)\.", await text_of(http, "rest=0:1")) == ["3", "0"]
        await client.aclose()


async def test_a_search_knows_places_and_fields(tmp_path: Path) -> None:
    """A text in the key, the value or the headers alone, and fields of JSON."""
    items: list[Item] = [
        (b"porto", b'{"city": "Lisbon", "amount": 5, "items": [{"sku": "A-1"}]}', ()),
        (b"x", b'{"city": "Porto", "amount": 50, "items": []}', (("from", b"lisbon"),)),
        (None, b'\0\0\0\0\7{"city": "Faro", "amount": 7.5, "vip": true}', ()),
        (None, b"[" * 20_000, ()),
    ]
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders")
        await produce(client, "orders", items)
        for parameters, wanted in (
            ("search=porto&in=key", [0]),
            ("search=porto&in=value", [1]),
            ("search=from%3DLis&in=headers", [1]),
            ("search=porto&in=anywhere", [1, 0]),
            ("where=city+%3D+Porto", [1]),
            ("where=amount+%3E%3D+7.5", [2, 1]),
            ("where=amount+%3C+50+and+city+!%3D+Faro", [0]),
            ("where=items.0.sku+%3D+A-1", [0]),
            ("where=items.*.sku+~+a-", [0]),
            ("where=vip+%3D+true", [2]),
            ("where=nothing+%3D+1", []),
        ):
            assert offsets(await text_of(http, parameters)) == wanted, parameters
        assert "is no condition" in await text_of(http, "where=city", 400)
        deep = [b'{"deep": ' + b"[" * n + b"]" * n + b"}" for n in range(300, 1000, 4)]
        await produce(client, "orders", [(None, value, ()) for value in deep])
        assert offsets(await text_of(http, "where=deep+~+porto")) == []
        await client.aclose()


async def test_records_of_a_time(tmp_path: Path) -> None:
    """The first record is the first one that isn't older."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await orders(client)
        assert offsets(await text_of(http, "count=1&time=2023-11-14T22:13:20.100")) == [100]
        assert offsets(await text_of(http, f"count=1&time={TIME_MS + 7}")) == [7]
        text = await text_of(http, "count=1&time=2023-11-14T23:13:20.100%2B01:00")
        assert offsets(text) == [100]
        assert 'value="2023-11-14T22:13:20" data-utc' in text
        text = await text_of(http, "time=2024-01-01T00:00")
        assert "All records are older" in text
        assert "write it as" in await text_of(http, "time=yesterday", 400)
        await client.aclose()


@pytest.mark.parametrize("codec", list(Compression))
async def test_a_search_finds_records_in_every_codec(tmp_path: Path, codec: int) -> None:
    """In keys, values and headers, in any case."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await orders(client, compression=codec)
        await produce(client, "orders", [(None, None, (("Trace", b"XYZ-9"),))], codec)
        assert offsets(await text_of(http, "search=ORDER+17.")) == [17]
        assert offsets(await text_of(http, "search=key-123")) == [123]
        assert offsets(await text_of(http, "search=xyz-9")) == [300]
        assert offsets(await text_of(http, "search=nothing-like-it")) == []
        await client.aclose()


async def test_a_search_stops_at_its_limit_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One page reads a bounded number of bytes, and offers to go on before them."""
    monkeypatch.setattr(reading, "SEARCH_BYTES", 1)
    monkeypatch.setattr(reading, "READ_BYTES", 1)
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders")
        await produce(client, "orders", [(None, b"needle", ())])
        await produce(client, "orders", [(None, b"hay", ())] * 60)
        text = await text_of(http, "search=needle")
        assert offsets(text) == []
        assert "the search stopped at its limit" in text
        assert offsets(await text_of(http, link_of(text, "Search on"))) == [0]
        await client.aclose()


async def test_a_batch_that_unpacks_to_too_much_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row says so, and the records behind it are shown."""
    monkeypatch.setattr(reading, "LIMITS", reading.LIMITS._replace(max_bytes=100_000))
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders")
        await produce(client, "orders", [(None, bytes(1_000_000), ())], Compression.ZSTD)
        await produce(client, "orders", [(None, b"small", ())])
        text = await text_of(http, "")
        assert "not shown" in text
        assert "read it with a consumer" in text
        assert "small" in text
        await client.aclose()


async def test_a_batch_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer gets at least one batch, however large it is; the page doesn't read it."""
    monkeypatch.setattr(reading, "MAX_BATCH_BYTES", 1000)
    monkeypatch.setattr(reading, "READ_BYTES", 500)
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders")
        await produce(client, "orders", [(None, b"x" * 5000, ())])
        assert "is more than the page opens" in await text_of(http, "offset=0")
        await client.aclose()


async def test_a_long_value_is_cut(tmp_path: Path) -> None:
    """The page stays small; the page of the record alone shows more of it."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders")
        await produce(client, "orders", [(None, b"x" * 500_000, ())] * 20, Compression.ZSTD)
        text = await text_of(http, "count=100")
        assert len(text) < 200_000
        assert "The beginning of 500 kB" in text
        assert len(await text_of(http, "count=1")) > 200_000
        await client.aclose()


async def test_markers_of_transactions_are_shown(tmp_path: Path) -> None:
    """So is the open transaction, with its age, on the page of producers."""
    async with http_server(tmp_path) as (running, http):
        client = await running.connect()
        await client.topic("orders")
        producer = RawProducer(client, "ledger")
        await producer.init()
        await producer.produce("orders", 0, b"one")
        text = (await http.get("/producers")).text
        assert "ledger" in text
        assert ">Ongoing<" in text
        assert "orders-0 at 0" in text
        await producer.end(committed=True)
        text = await text_of(http, "")
        assert ">commit</span> of the transaction of producer" in text
        assert "no transaction is open" in (await http.get("/producers")).text
        await client.aclose()


def read_as(content: bytes | None, form: str) -> Shown:
    """A whole value in a format."""
    return shown(content, form, len(content or b""))


def test_values_in_every_format() -> None:
    """Each is what it says; ``auto`` finds the right one."""
    as_json = json.dumps({"a": [1, "é"]}).encode()
    framed = b"\0\0\0\0\x07" + as_json
    assert read_as(as_json, "auto").kind == "json"
    assert '"a": [' in read_as(as_json, "auto").text
    assert read_as(framed, "auto").kind == "schema 7, json"
    assert read_as(framed, "confluent").preview == as_json.decode()
    assert read_as(b"\0\0\0\0\x07\x02\xff\0", "auto").kind == "schema 7, hex"
    assert read_as(as_json, "confluent").kind == "no frame, json"
    assert read_as(b"\0\xff\xff\xff\xff\x01", "auto").kind == "hex"
    assert read_as("Łódź".encode(), "auto") == Shown("text", "Łódź", "Łódź", 7, False)
    assert read_as("Łódź".encode(), "hex").preview == "c5 81 c3 b3 64 c5 ba"
    assert read_as(b"\xff\xfe", "auto").kind == "hex"
    assert read_as(b"\xff\xfe", "text").text == "\ufffd\ufffd"
    assert read_as(None, "auto").kind == "null"
    assert read_as(b"", "auto") == Shown("text", "", "", 0, False)
    assert read_as(b"000", "json").kind == "text"
    assert shown("żółć".encode()[:3], "auto", 8).kind == "text"  # cut within a character


@pytest.mark.parametrize("content", [b"[" * 30_000, b'{"a":' * 10_000, b"[" + b"9" * 5_000 + b"]"])
def test_json_that_can_not_be_read_is_text(content: bytes) -> None:
    """Nesting or numbers without end harm nobody."""
    assert read_as(content, "auto").kind == "text"


def test_indents_of_deep_json_do_not_make_it_large() -> None:
    """A record of 60 kB would otherwise become a page of 50 MB."""
    for depth, count in ((900, 30_000), (100, 30_000)):
        content = b"[" * depth + b"1," * count + b"1" + b"]" * depth
        part = shown(content, "auto", len(content))
        assert part.kind == "json"
        assert len(part.text) <= 8 * len(content)


async def test_behind_an_authorizer_the_page_has_the_rights_of_its_principal(
    tmp_path: Path,
) -> None:
    """Nobody reads over HTTP what no ACL opens."""
    known = "User:ANONYMOUS"
    for super_users, is_allowed in ((known, False), (f"{known};HTTP:anonymous", True)):
        settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": super_users}
        async with http_server(tmp_path / str(is_allowed), settings) as (running, http):
            client = await running.connect()
            await orders(client)
            answer = await http.get("/records?topic=orders")
            assert ("order 299." in answer.text) is is_allowed
            await client.aclose()
