"""The HTTP port: it answers about the broker, and it can't be opened without what it needs."""

import importlib.util
import socket
from pathlib import Path

import httpx
import pytest

from kwire.budget.slices import Slices
from kwire.clock import steady_clock_ms
from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.errors import ErrorCode, KafkaError
from kwire.server import Server, StartError
from kwire.testing.process import BrokerProcess
from kwire.web.cross_loop_calls import Observed
from kwire.web.port import HttpPort
from tests.support.clock import step_clock
from tests.web.conftest import HTTP, http_server


async def test_a_broker_that_serves_is_healthy_and_ready(tmp_path: Path) -> None:
    """Both answers are 200, and say so in words."""
    async with http_server(tmp_path) as (_, http):
        health = await http.get("/healthz")
        assert (health.status_code, health.text[:3]) == (200, "ok:")
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.text) == (200, "ready\n")


async def test_a_broker_that_starts_is_healthy_but_not_ready() -> None:
    """A recovery may take long: a supervisor must not end it, a balancer must wait."""
    port = HttpPort(BrokerConfig.load(HTTP), steady_clock_ms)
    host, number = port.address
    async with port.open(), httpx.AsyncClient(base_url=f"http://{host}:{number}") as http:
        assert (await http.get("/healthz")).status_code == 200
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.text) == (503, "the broker is starting\n")
        port.observed.stops()
        assert (await http.get("/readyz")).text == "the broker is stopping\n"


async def test_a_broker_with_an_offline_directory_is_not_ready(tmp_path: Path) -> None:
    """The reason names the directory."""
    one, two = tmp_path / "one", tmp_path / "two"
    async with http_server(tmp_path, {"log.dirs": f"{one},{two}"}) as (running, http):
        log = next(iter(running.broker.log_manager.data_directories))
        log.health.fail("cannot read", OSError("the disk is gone"))
        ready = await http.get("/readyz")
        assert ready.status_code == 503
        assert ready.text == (
            f"the data directory {one} is offline: cannot read: the disk is gone\n"
        )


class LoadingCoordinators:
    """Coordinators that aren't loaded yet."""

    topic_name = "__consumer_offsets"

    def all_coordinators(self) -> None:
        """Refuse."""
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


async def test_a_broker_whose_coordinators_are_loading_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members of groups would be refused."""
    async with http_server(tmp_path) as (running, http):
        kinds = iter([LoadingCoordinators()])
        monkeypatch.setattr(type(running.broker.coordinators), "__iter__", lambda _: kinds)
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.text) == (503, "__consumer_offsets is being loaded\n")


async def test_a_bug_in_a_page_is_logged_and_the_broker_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets status 500 without the exception's text."""

    def broken(_: Observed) -> None:
        raise ValueError("a secret")

    monkeypatch.setattr("kwire.web.health.reasons_against", broken)
    async with http_server(tmp_path) as (_, http):
        answer = await http.get("/readyz")
        assert (answer.status_code, "secret" in answer.text) == (500, False)
        assert (await http.get("/healthz")).status_code == 200
    assert "bug in the HTTP port, /readyz" in caplog.text


async def test_a_long_question_lets_other_tasks_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A loop over ten thousand partitions holds the broker's loop for a slice at a time."""
    turns = []

    async def checkpoint() -> None:
        turns.append(1)

    step_clock(monkeypatch, "kwire.budget.slices", 0.0001)
    monkeypatch.setattr("trio.lowlevel.checkpoint", checkpoint)
    slices = Slices()
    for _ in range(1000):
        await slices.give_way()
    assert 80 <= len(turns) <= 120


@pytest.mark.parametrize("text", ["9094", "host", "::1:9094", "http://h:1", "h:99999", "h:"])
def test_a_malformed_address_is_refused(text: str) -> None:
    """The error names the setting and shows how to write it."""
    with pytest.raises(ConfigError, match="must be HOST:PORT"):
        BrokerConfig.load({"kwire.http.listen": text})


def test_addresses_in_all_their_forms() -> None:
    """IPv4, IPv6, every interface."""
    forms = {
        "127.0.0.1:1": ("127.0.0.1", 1),
        "[::1]:2": ("::1", 2),
        "*:3": ("", 3),
        ":4": ("", 4),
    }
    for text, address in forms.items():
        assert BrokerConfig.load({"kwire.http.listen": text}).http_address() == address
    assert BrokerConfig.load({}).http_address() is None


async def test_a_missing_package_is_one_line_that_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker doesn't start without the port that it was asked for."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "h11" else found(name)
    )
    with pytest.raises(StartError, match=r"h11, which .*: pip install -e '\.\[web\]'"):
        await Server(BrokerConfig.load(HTTP | {"log.dirs": str(tmp_path)})).serve()


async def test_an_address_that_is_taken_is_one_line(tmp_path: Path) -> None:
    """It names the address and what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = {"kwire.http.listen": address, "log.dirs": str(tmp_path)}
        with pytest.raises(StartError, match=rf"{address} for HTTP: .*--http HOST:PORT"):
            await Server(BrokerConfig.load(settings)).serve()


def test_the_broker_says_where_its_http_port_is(tmp_path: Path) -> None:
    """In the line that says that it is ready; a process with the port ends cleanly."""
    with BrokerProcess(tmp_path, HTTP) as broker:
        assert broker.http.startswith("http://127.0.0.1:")
        assert httpx.get(broker.http + "readyz", timeout=60).text == "ready\n"
        assert broker.stop() == 0
    [line] = broker.log().splitlines()
    assert "stopped cleanly" in line
