"""The registry beside the topics: served by a broker, kept in ``_schemas``."""

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.metadata.image import ConfigResourceType
from kwire.record.streaming_decompressor import Limits
from kwire.registry import topic_journal
from tests.support.in_process import RunningServer, running_server
from tests.support.records import batch

SETTINGS = {"kwire.registry.listen": "127.0.0.1:0"}
TOPIC = "_schemas"


@asynccontextmanager
async def registry_server(
    data_dir: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[RunningServer, httpx.AsyncClient]]:
    """A running server with a registry, and an HTTP client for it."""
    async with running_server(data_dir, SETTINGS | dict(settings or {})) as running:
        assert running.server.registry is not None
        host, port = running.server.registry.address
        url = f"http://{host}:{port}"
        async with httpx.AsyncClient(base_url=url, timeout=30, verify=False) as client:
            yield running, client


def fixed(name: str) -> dict[str, str]:
    """The body of a request with a small schema."""
    return {"schema": json.dumps({"type": "fixed", "name": name, "size": 2})}


async def register(client: httpx.AsyncClient, subject: str, name: str) -> int:
    """Register a schema; its id."""
    answer = await client.post(f"/subjects/{subject}/versions", json=fixed(name))
    assert answer.status_code == 200, answer.text
    return int(answer.json()["id"])


async def test_what_is_registered_is_there_after_a_restart(tmp_path: Path) -> None:
    """Schemas, settings and modes; ids count on."""
    async with registry_server(tmp_path) as (_, client):
        assert (await client.get("/subjects")).json() == []
        assert [await register(client, one, one) for one in ("a", "b")] == [1, 2]
        await client.put("/config/a", json={"compatibility": "NONE"})
        assert [await register(client, "a", one) for one in ("b", "c")] == [2, 3]
        await client.delete("/subjects/b")
    async with registry_server(tmp_path) as (_, client):
        assert (await client.get("/subjects")).json() == ["a"]
        assert (await client.get("/subjects?deleted=true")).json() == ["a", "b"]
        assert (await client.get("/subjects/a/versions")).json() == [1, 2, 3]
        assert (await client.get("/config/a")).json() == {"compatibilityLevel": "NONE"}
        assert await register(client, "a", "d") == 4
        assert await register(client, "b", "b") == 2


async def test_the_topic_is_as_the_other_registry_makes_it(tmp_path: Path) -> None:
    """Compacted, with one partition; made by the first change, and not by reads."""
    async with registry_server(tmp_path, {"num.partitions": "3"}) as (server, client):
        await client.get("/subjects")
        assert TOPIC not in server.broker.image.topics_by_name
        await register(client, "a", "A")
        topic = server.broker.image.topics_by_name[TOPIC]
        assert len(topic.partitions) == 1
        configs = server.broker.image.config(ConfigResourceType.TOPIC, TOPIC)
        assert configs["cleanup.policy"] == "compact"
        [written] = await server.records(TOPIC)
        assert json.loads(written.value or b"")["id"] == 1


async def test_what_another_registry_writes_is_served(tmp_path: Path) -> None:
    """Into a topic that it has made, while kwire's runs; the next id counts on from it."""
    key = b'{"keytype":"SCHEMA","subject":"theirs","version":1,"magic":1}'
    value = b'{"subject":"theirs","version":1,"id":70,"schema":"\\"string\\"","deleted":false}'
    async with registry_server(tmp_path) as (server, client):
        await server.topic(TOPIC, cleanup_policy="compact")
        await server.produce(TOPIC, (b'{"keytype":"NOOP","magic":0}', b""), (key, value))
        with trio.fail_after(30):
            while (await client.get("/subjects")).json() != ["theirs"]:
                pass
        assert (await client.get("/schemas/ids/70")).json() == {"schema": '"string"'}
        assert await register(client, "ours", "A") == 71
        answer = await client.post("/subjects/ours2/versions", json={"schema": ' "string"'})
        assert answer.json() == {"id": 70}, "their schema has their id"


async def test_records_that_no_registry_writes_end_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are left out, and the log says which."""
    wrong = b'{"subject":"b","version":1,"id":1,"schema":"\\"int\\""}'
    async with registry_server(tmp_path) as (server, client):
        assert await register(client, "a", "A") == 1
        key = b'{"keytype":"SCHEMA","subject":"b","version":1,"magic":1}'
        await server.produce(TOPIC, (b"no JSON", b"x"), (key, wrong), (key, b"{}"))
        assert await register(client, "c", "C") == 2
        assert (await client.get("/subjects")).json() == ["a", "c"]
    left_out = [one.getMessage() for one in caplog.records if "left out" in one.getMessage()]
    assert len(left_out) == 3
    assert "offset 1: it is no JSON" in left_out[0]
    assert "offset 2: its id has another schema" in left_out[1]


async def test_a_batch_beyond_the_limits_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is left out, and the HTTP port of the broker says so, too."""
    monkeypatch.setattr(topic_journal, "LIMITS", Limits(max_records=2))
    noop = (b'{"keytype":"NOOP","magic":0}', b"x")
    both = {"kwire.http.listen": "127.0.0.1:0"}
    async with registry_server(tmp_path, both) as (server, client):
        assert await register(client, "a", "A") == 1
        await server.produce_batch(TOPIC, batch(noop, noop, noop, compression=1))
        assert await register(client, "b", "B") == 2
        assert server.server.http is not None
        host, port = server.server.http.address
        async with httpx.AsyncClient(timeout=30, verify=False) as page:
            ready = await page.get(f"http://{host}:{port}/readyz")
        assert ready.status_code == 200
        first, told = ready.text.splitlines()
        assert first == "ready"
        assert "left out the batch of _schemas at offset 1" in told
    assert "left out the batch of _schemas at offset 1" in caplog.text


async def test_a_subject_of_many_versions_is_deleted_while_others_read(tmp_path: Path) -> None:
    """For good, and with its ids; those of others stay."""
    async with registry_server(tmp_path) as (_, client):
        await client.put("/config", json={"compatibility": "NONE"})
        for number in range(100):
            await register(client, "many", f"N{number}")
        assert await register(client, "a", "A") == 101
        numbers = list(range(1, 101))
        assert (await client.delete("/subjects/many")).json() == numbers
        assert (await client.delete("/subjects/many?permanent=true")).json() == numbers
        assert (await client.get("/schemas/ids/1")).status_code == 404
        assert (await client.get("/schemas/ids/101")).status_code == 200
        assert await register(client, "a", "N5") == 102


async def test_one_id_for_each_schema_of_many_clients(tmp_path: Path) -> None:
    """Eight clients register the same schemas, each in another order."""
    found: list[dict[str, int]] = [{} for _ in range(8)]
    async with registry_server(tmp_path) as (_, client):

        async def register_all(number: int) -> None:
            names = [f"N{one}" for one in range(20)]
            for name in names[number:] + names[:number]:
                found[number][name] = await register(client, name, name)

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(register_all, number)
        assert all(one == found[0] for one in found)
        assert sorted(found[0].values()) == list(range(1, 21))


async def test_a_schema_that_takes_long_delays_nobody(tmp_path: Path) -> None:
    """It is parsed in a thread, while others register and read."""
    fields = [{"name": f"f{number}", "type": "int"} for number in range(15_000)]
    large = {"schema": json.dumps({"type": "record", "name": "L", "fields": fields})}
    async with registry_server(tmp_path) as (_, client):
        await register(client, "a", "A")
        async with trio.open_nursery() as nursery:
            done: list[int] = []

            async def post() -> None:
                done.append((await client.post("/subjects/l/versions", json=large)).status_code)

            nursery.start_soon(post)
            while not done:
                assert (await client.get("/schemas/ids/1")).status_code == 200
        assert done == [200]


async def test_a_deleted_topic_is_an_empty_registry(tmp_path: Path) -> None:
    """As everything that is in a topic; the next change makes it again."""
    async with registry_server(tmp_path) as (server, client):
        await register(client, "a", "A")
        await server.delete_topic(TOPIC)
        with trio.fail_after(30):
            while (await client.get("/subjects")).json():
                pass
        assert await register(client, "b", "B") == 1


async def test_a_schema_that_is_too_large_for_its_record(tmp_path: Path) -> None:
    """The topic's limit, as the other registry tells it."""
    async with registry_server(tmp_path, {"message.max.bytes": "2000"}) as (_, client):
        large = {"type": "record", "name": "L", "fields": [], "doc": "x" * 3000}
        body = {"schema": json.dumps(large)}
        answer = await client.post("/subjects/a/versions", json=body)
        assert answer.json()["error_code"] == 42209
        assert await register(client, "a", "A") == 1


async def test_a_page_of_another_site_reads_nothing(tmp_path: Path) -> None:
    """The Host header has to name the broker's machine, or what the setting allows."""
    allowed = {"kwire.registry.allowed.hosts": "schemas.example"}
    async with registry_server(tmp_path, allowed) as (_, client):
        answer = await client.get("/subjects", headers={"Host": "evil.example"})
        assert answer.status_code == 403
        assert "kwire.registry.allowed.hosts" in answer.text
        named = await client.get("/subjects", headers={"Host": "schemas.example:8081"})
        assert named.status_code == 200


@pytest.mark.parametrize(
    "other",
    [
        {"kwire.workers": "2"},
        {"kwire.metadata.store": "etcd://127.0.0.1:2379", "advertised.listeners": "P://h:1"},
    ],
)
def test_where_it_is_not_served_yet(other: dict[str, str]) -> None:
    """A setting that would promise more than there is gets one line."""
    with pytest.raises(ConfigError, match=r"kwire\.registry\.listen"):
        BrokerConfig.load({**SETTINGS, **other})


async def test_the_page_of_this_broker_reads_values_by_its_schemas(tmp_path: Path) -> None:
    """Without a setting that names a registry."""
    both = {"kwire.http.listen": "127.0.0.1:0"}
    async with registry_server(tmp_path, both) as (server, client):
        answer = await client.post("/subjects/a-value/versions", json={"schema": '"string"'})
        number = answer.json()["id"]
        await server.topic("a")
        await server.produce("a", b"\0" + number.to_bytes(4, "big") + b"\x0aPorto")
        assert server.server.http is not None
        host, port = server.server.http.address
        url = f"http://{host}:{port}/records?topic=a"
        async with httpx.AsyncClient(timeout=30, verify=False) as page:
            with trio.fail_after(30):
                while "&#34;Porto&#34;" not in (await page.get(url)).text:
                    pass


async def test_types_that_are_missing_are_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not only when somebody registers such a schema."""
    for module in ("jsonschema_rs", "grpc_tools"):
        monkeypatch.setitem(sys.modules, module, None)
    async with registry_server(tmp_path):
        pass
    told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert [one.split(":")[0] for one in told if "schema registry" in one] == [
        "the schema registry has no JSON Schema",
        "the schema registry has no Protobuf",
    ]
