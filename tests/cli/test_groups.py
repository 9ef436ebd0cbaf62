"""``kwire groups explain``: what it prints, and what it says when there is nothing to print."""

import re
import socket
from functools import partial
from pathlib import Path

import pytest
import trio

from kwire.cli import connection, groups, main
from kwire.errors import ErrorCode
from kwire.protocol.messages.explain_group import ExplainGroupRequest, ExplainGroupResponse
from kwire.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.types import Request, Response
from kwire.testing.in_process import local_port, running_server


async def _explain(group: str, bootstrap: str) -> int:
    command = ["groups", "explain", group, "--bootstrap-server", bootstrap]
    return await trio.to_thread.run_sync(partial(main, command))


async def test_a_group_is_explained(tmp_path: Path, capsys):
    """Its state, then a line for each event with its time."""
    async with running_server(tmp_path) as server:
        bootstrap = f"{server.host}:{server.port}"
        assert await _explain("billing", bootstrap) == 1
        assert "knows no group billing" in capsys.readouterr().err
        client = await server.connect()
        await client.request(FindCoordinatorRequest(key="billing"), 3, FindCoordinatorResponse)
        protocols = [JoinGroupRequestProtocol(name="range")]
        joining = JoinGroupRequest(
            group_id="billing",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        await client.request(joining, 3, JoinGroupResponse)
        assert await _explain("billing", bootstrap) == 0
        await client.aclose()
    state, joined, formed = capsys.readouterr().out.splitlines()
    assert state == "billing: CompletingRebalance (classic)"
    assert re.match(r"  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d  raw-\S+ joins", joined)
    assert "generation 1 has 1 member(s)" in formed


@pytest.mark.parametrize("bootstrap", ["localhost", "localhost:x", "localhost:99999", ":9092"])
def test_an_address_that_is_none(bootstrap: str, capsys):
    """It is said what was expected."""
    assert main(["groups", "explain", "g", "--bootstrap-server", bootstrap]) == 1
    assert f"{bootstrap} is not HOST:PORT" in capsys.readouterr().err


def test_a_broker_that_is_not_there(capsys):
    """One line, and no trace."""
    assert main(["groups", "explain", "g", "--bootstrap-server", f"127.0.0.1:{local_port()}"]) == 1
    said = capsys.readouterr().err
    assert "cannot ask 127.0.0.1" in said
    assert "--bootstrap-server" in said


def test_a_broker_that_does_not_answer(capsys, monkeypatch):
    """It is waited for a while, not for ever."""
    monkeypatch.setattr(connection, "TIMEOUT_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        assert main(["groups", "explain", "g", "--bootstrap-server", address]) == 1
    assert capsys.readouterr().err.startswith(f"kwire: {address} does not answer: is it a broker?")


class _Starting:
    """A broker that has coordinators after so many questions."""

    def __init__(self, questions: int) -> None:
        self._left = questions

    def __call__(self, *_: object) -> "_Starting":
        return self

    def __enter__(self) -> "_Starting":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, request: Request, _version: int) -> Response:
        """The answer to either question."""
        if isinstance(request, ExplainGroupRequest):
            return ExplainGroupResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        self._left -= 1
        home = Coordinator(key="g", node_id=1, host="h", port=1)
        if self._left >= 0:
            home.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return FindCoordinatorResponse(coordinators=[home])


@pytest.mark.parametrize(
    ("timeout_s", "said"),
    [(60, "knows no group g"), (-1, "COORDINATOR_NOT_AVAILABLE: the group has no")],
)
def test_a_broker_that_has_just_started(capsys, monkeypatch, timeout_s, said):
    """It is asked again while there is time: its coordinators come a moment later."""
    monkeypatch.setattr(connection, "TIMEOUT_S", timeout_s)
    monkeypatch.setattr(connection, "Connection", _Starting(3))
    monkeypatch.setattr(groups, "TRY_AGAIN_S", 0)
    assert main(["groups", "explain", "g"]) == 1
    assert said in capsys.readouterr().err


async def test_a_broker_that_is_not_kwire(capsys):
    """It closes the connection when it is asked."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def hang_up() -> None:
        connection, _ = listener.accept()
        connection.recv(1000)
        connection.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, hang_up)
        assert await _explain("g", f"127.0.0.1:{port}") == 1
    listener.close()
    assert "127.0.0.1" in capsys.readouterr().err
