"""Changes over HTTP: only with a login, only from the page's own forms, and only these."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from kwire.client.partitioner import partition_of_key
from kwire.clock import Clock
from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.metadata.image import ConfigResourceType
from kwire.server import Server, StartError
from kwire.testing.waiting import until
from kwire.web import cross_loop_calls
from kwire.web.page import admin
from tests.support.in_process import RunningServer
from tests.support.sieve import Sieve
from tests.web.conftest import HTTP, http_server
from tests.web.page_data import MARKUP, join, produce

TOKEN = "a token of the tests"


@asynccontextmanager
async def administered(
    tmp_path: Path, clock: Clock | None = None
) -> AsyncIterator[tuple[RunningServer, httpx.AsyncClient, str]]:
    """A broker with a logged-in administrator: the server, the browser, and its CSRF value."""
    token_file = tmp_path / "token"
    token_file.touch(mode=0o600)
    token_file.write_text(f"{TOKEN}\n", encoding="utf-8")
    settings = {
        "kwire.http.admin.enable": "true",
        "kwire.http.admin.token.file": str(token_file),
    }
    async with http_server(tmp_path / "data", settings, clock) as (running, http):
        answer = await http.post("/admin/login", data={"token": TOKEN})
        assert answer.status_code == 303
        yield running, http, await csrf_of(http)


async def csrf_of(http: httpx.AsyncClient) -> str:
    """The value in the forms of this session; empty without one."""
    found = re.search(r'name="csrf" value="([^"]+)"', (await http.get("/topics")).text)
    return found[1] if found else ""


async def test_a_topic_from_creation_to_deletion(tmp_path: Path) -> None:
    """Each change is there when the browser is led on, and the broker's checks are in force."""
    async with administered(tmp_path) as (running, http, csrf):
        topics = running.broker.image.topics_by_name
        new = {"csrf": csrf, "name": "orders", "partitions": "3", "configs": "retention.ms=5000\n"}
        answer = await http.post("/admin/topics/create", data=new)
        assert answer.headers["location"] == "/topics/orders?done=created"
        topics = running.broker.image.topics_by_name
        assert len(topics["orders"].partitions) == 3
        assert "The topic is created." in (await http.get("/topics/orders?done=created")).text
        again = await http.post("/admin/topics/create", data=new)
        assert (again.status_code, "TOPIC_ALREADY_EXISTS" in again.text) == (409, True)
        none = await http.post("/admin/topics/create", data=new | {"partitions": "--3"})
        assert (none.status_code, "must be a whole number" in none.text) == (400, True)
        change = {"csrf": csrf, "topic": "orders", "name": "retention.ms", "value": "777"}
        assert (await http.post("/admin/topics/set", data=change)).status_code == 303
        own = running.broker.image.config(ConfigResourceType.TOPIC, "orders")
        assert own["retention.ms"] == "777"
        wrong = await http.post("/admin/topics/set", data=change | {"value": "soon"})
        assert (wrong.status_code, "INVALID_CONFIG" in wrong.text) == (409, True)
        assert (await http.post("/admin/topics/set", data=change | {"unset": "yes"})).is_redirect
        assert not running.broker.image.config(ConfigResourceType.TOPIC, "orders")
        doomed = {"csrf": csrf, "topic": "orders"}
        unsure = await http.post("/admin/topics/delete", data=doomed | {"confirm": "order"})
        assert unsure.status_code == 400
        assert "orders" in running.broker.image.topics_by_name
        sure = await http.post("/admin/topics/delete", data=doomed | {"confirm": "orders"})
        assert sure.status_code == 303
        assert "orders" not in running.broker.image.topics_by_name


async def test_a_record_is_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As a producer would write it; the broker's log tells of it, without the content."""
    async with administered(tmp_path) as (running, http, csrf):
        client = await running.connect()
        await client.topic("orders", 3)
        record = {
            "csrf": csrf,
            "topic": "orders",
            "partition": "",
            "key": "customer-7",
            "value": f"{{\r\n{MARKUP}}}",
            "headers": "trace=1=2\r\n\r\nsource=page",
        }
        done = await http.post("/admin/records/produce", data=record)
        index = partition_of_key(b"customer-7", 3)
        assert done.headers["location"] == (
            f"/records?topic=orders&partition={index}&offset=0&count=1&done=produced"
        )
        text = (await http.get(done.headers["location"])).text
        assert "The record is written." in text
        assert '<pre tabindex="0">{\n&lt;script&gt;alert(1)' in text
        assert "1=2" in text
        assert MARKUP not in text
        assert f"written a record to 'orders', partition {index}, offset 0" in caplog.text
        assert "customer-7" not in caplog.text
        await http.post("/admin/records/produce", data=record | {"partition": "2", "null": "yes"})
        assert "null" in (await http.get("/records?topic=orders&partition=2")).text
        for change, status, problem in (
            ({"topic": "nothing"}, 404, "there is no topic"),
            ({"partition": "3"}, 409, "UNKNOWN_TOPIC_OR_PARTITION"),
            ({"headers": "odd"}, 400, "write a header as name=value"),
            ({"csrf": "x"}, 403, "not of this session"),
            ({"value": "x" * 70_000}, 413, "may have 65536 bytes"),
        ):
            refused = await http.post("/admin/records/produce", data=record | change)
            assert (refused.status_code, problem in refused.text) == (status, True), change
        await client.aclose()


async def test_records_are_deleted_up_to_an_offset(tmp_path: Path) -> None:
    """As DeleteRecords does it."""
    async with administered(tmp_path) as (running, http, csrf):
        client = await running.connect()
        await client.topic("orders")
        await produce(client, "orders", [(None, b"v", ())] * 10)
        doomed = {
            "csrf": csrf,
            "topic": "orders",
            "partition": "0",
            "offset": "4",
            "confirm": "orders",
        }
        assert (await http.post("/admin/records/delete", data=doomed)).status_code == 303
        assert running.broker.partition("orders", 0).log.log_start_offset == 4
        beyond = await http.post("/admin/records/delete", data=doomed | {"offset": "11"})
        assert "OFFSET_OUT_OF_RANGE" in beyond.text
        await client.aclose()


async def test_offsets_are_reset_after_a_look_at_them(tmp_path: Path) -> None:
    """The first form shows the new offsets and changes nothing."""
    async with administered(tmp_path) as (running, http, csrf):
        client = await running.connect()
        await client.topic("orders")
        await produce(client, "orders", [(None, b"v", ())] * 10)
        await client.commit("billing", "orders", 3)

        def committed() -> int:
            groups = running.broker.groups.coordinator("billing").coordinator
            found = groups.offsets.of("billing").get("orders", 0)
            assert found is not None
            return found.offset

        reset = {"csrf": csrf, "group": "billing", "topic": "orders", "partition": ""}
        for to, value, offset in (
            ("latest", "", 10),
            ("earliest", "", 0),
            ("offset", "7", 7),
            ("offset", "99", 10),
            ("time", "1700000000002", 2),
            ("time", "2030-01-01T00:00", 10),
        ):
            form = reset | {"to": to, "value": value}
            before = committed()
            shown = await http.post("/admin/groups/reset", data=form)
            assert "Nothing has changed yet." in shown.text
            assert committed() == before
            done = await http.post("/admin/groups/reset", data=form | {"confirm": "yes"})
            assert done.headers["location"] == "/group?id=billing&done=reset"
            assert committed() == offset
        long = reset | {"group": "x" * 40_000, "to": "latest", "confirm": "yes"}
        assert (await http.post("/admin/groups/reset", data=long)).status_code == 400
        wrong = await http.post("/admin/groups/reset", data=reset | {"to": "never"})
        assert wrong.status_code == 400
        await client.aclose()


async def test_offsets_of_a_group_with_members_are_not_reset(tmp_path: Path) -> None:
    """The members would commit their own offsets over the new ones."""
    async with administered(tmp_path) as (running, http, csrf):
        client = await running.connect()
        await client.topic("orders")
        member = await join(running, "billing", "reader")
        form = {"csrf": csrf, "group": "billing", "topic": "orders", "to": "earliest"}
        answer = await http.post("/admin/groups/reset", data=form | {"confirm": "yes"})
        assert (answer.status_code, "the group has members" in answer.text) == (409, True)
        await member.aclose()
        await client.aclose()


CHANGE = {"name": "forged", "partitions": "1"}


async def test_a_form_without_the_value_of_the_session_is_refused(tmp_path: Path) -> None:
    """Another site can't read the value; a cookie alone changes nothing."""
    async with administered(tmp_path) as (running, http, csrf):
        other = csrf[:-1] + ("A" if csrf.endswith("-") else "-")
        for fields in (CHANGE, CHANGE | {"csrf": ""}, CHANGE | {"csrf": other}):
            answer = await http.post("/admin/topics/create", data=fields)
            assert answer.status_code == 403
        good = CHANGE | {"csrf": csrf}
        assert (await http.get("/admin/topics/create", params=good)).status_code == 405
        for headers in (
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"origin": "http://evil.example"},
        ):
            answer = await http.post("/admin/topics/create", data=good, headers=headers)
            assert answer.status_code == 403, headers
        plain = {"content-type": "text/plain"}
        body = str(httpx.QueryParams(good))
        answer = await http.post("/admin/topics/create", content=body, headers=plain)
        assert answer.status_code == 415
        assert not running.broker.image.topics_by_name


async def test_without_a_login_nothing_changes(tmp_path: Path) -> None:
    """Neither without a cookie, nor with a made-up one, nor after the logout."""
    async with administered(tmp_path) as (running, http, csrf):
        good = CHANGE | {"csrf": csrf}
        session = dict(http.cookies)
        [name] = session
        assert (await http.post("/admin/logout", data={"csrf": csrf})).status_code == 303
        for value in (session[name], "guess"):
            http.cookies.set(name, value)
            assert (await http.post("/admin/topics/create", data=good)).status_code == 403
            assert not await csrf_of(http)
        assert not running.broker.image.topics_by_name


async def test_the_cookie_is_kept_from_scripts_and_other_sites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong token gives no cookie."""
    monkeypatch.setattr(admin, "WRONG_S", 0.0)
    async with administered(tmp_path) as (_, http, _csrf):
        http.cookies.clear()
        wrong = await http.post("/admin/login", data={"token": "guess"})
        assert (wrong.status_code, "set-cookie" in wrong.headers) == (403, False)
        right = await http.post("/admin/login", data={"token": TOKEN})
        cookie = right.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert TOKEN not in cookie


def test_changes_need_the_http_port() -> None:
    """The setting alone would do nothing."""
    with pytest.raises(ConfigError, match="needs --http"):
        BrokerConfig.load({"kwire.http.admin.enable": "true"})


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        (None, 0, "cannot read"),
        (b"short", 0o600, "at least 16 characters"),
        (b"\xff" * 20, 0o600, "not UTF-8"),
        (b"x" * 20, 0o644, "everybody on this machine may read"),
    ],
)
async def test_a_token_that_can_not_be_used_stops_the_start(
    tmp_path: Path, content: bytes | None, mode: int, problem: str
) -> None:
    """One line names the setting and the problem."""
    token_file = tmp_path / "token"
    if content is not None:
        token_file.touch(mode=mode)
        token_file.write_bytes(content)
    settings = HTTP | {
        "kwire.http.admin.enable": "true",
        "kwire.http.admin.token.file": str(token_file),
        "log.dirs": str(tmp_path / "data"),
    }
    server = Server(BrokerConfig.load(settings))
    with pytest.raises(StartError, match=problem):
        await server.serve()


def test_the_broker_prints_a_token_of_its_own(tmp_path: Path) -> None:
    """``--http-admin`` is enough: the line after the ready line has the token."""
    options = ["--http", "127.0.0.1:0", "--http-admin", "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-P", "-m", "kwire", "serve", "--data-dir", str(tmp_path), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready, line = process.stdout.readline(), process.stdout.readline()
            address = ready.rpartition("http=")[2].strip()
            token = line.removeprefix("kwire http admin token: ").strip()
            answer = httpx.post(f"{address}admin/login", data={"token": token}, timeout=30)
            assert answer.status_code == 303
        finally:
            process.terminate()


async def test_a_change_that_takes_long_is_not_left_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page gives up after a while; the broker finishes the change."""
    monkeypatch.setattr(cross_loop_calls, "ANSWER_S", 0.05)
    async with administered(tmp_path) as (running, http, csrf):
        sieve = Sieve(running.broker.commits.store)
        form = {"csrf": csrf, "name": "orders", "partitions": "1"}
        answer = await http.post("/admin/topics/create", data=form)
        assert (answer.status_code, "no answer within" in answer.text) == (503, True)
        sieve.is_open.set()
        await until(lambda: "orders" in running.broker.image.topics_by_name)
