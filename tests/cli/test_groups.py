"""``kwire groups``: what list and explain print, and what is said when there is nothing."""

import json
import re
import socket
from functools import partial
from pathlib import Path

import pytest
import trio

from kwire.cli import main
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tests.support.asking import error_of
from tests.support.in_process import running_server
from tests.support.ports import free_port
from tests.support.share_group import join_share_group
from tests.support.share_member import ACCEPT, RELEASE
from tests.support.streams_group import GROUP, SETTINGS, TOPIC, StreamsClient
from tests.web.page_data import join


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
    assert "generation 1 has 1 member, " in formed


@pytest.mark.parametrize("bootstrap", ["localhost:", "localhost:x", "localhost:99999", ":9092"])
def test_an_address_that_is_none(bootstrap: str, capsys):
    """It is said what was expected."""
    assert main(["groups", "explain", "g", "--bootstrap-server", bootstrap]) == 2
    assert f"{bootstrap} is not HOST:PORT" in capsys.readouterr().err


def test_a_broker_that_is_not_there(capsys):
    """One line, and no trace."""
    address = f"127.0.0.1:{free_port()}"
    assert main(["groups", "explain", "g", "--bootstrap-server", address]) == 1
    assert capsys.readouterr().err == (
        f"kwire: cannot connect to {address}: connection refused; start a broker with kwire serve, "
        "or name a running one with --bootstrap-server HOST:PORT\n"
    )


def test_a_broker_that_does_not_answer(capsys):
    """It is waited for a while, not for ever."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        given = ["--bootstrap-server", address, "--timeout", "500ms"]
        assert main(["groups", "explain", "g", *given]) == 1
    said = f"kwire: {address}: no answer to ApiVersions within 0.5 s; is it a Kafka broker"
    assert capsys.readouterr().err.startswith(said)


async def test_a_broker_that_is_not_kwire(capsys):
    """It closes every connection on which it is asked."""

    async def hang_up(stream: trio.SocketStream) -> None:
        await stream.receive_some(1000)

    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, hang_up, 0, host="127.0.0.1")
        [listener] = await nursery.start(serve)
        address = "{}:{}".format(*listener.socket.getsockname())
        assert await _explain("g", address) == 1
        nursery.cancel_scope.cancel()
    assert f"{address}: the broker closed the connection" in capsys.readouterr().err


async def test_a_list_shows_members_and_lag(tmp_path: Path, capsys) -> None:
    """Of groups of each kind. What members have counts, from the first record on without an offset;
    a group without offsets and partitions has no lag that is known.
    """
    async with running_server(tmp_path / "data", {"num.partitions": "2"}) as server:
        bootstrap = ["-b", f"{server.host}:{server.port}"]

        async def run(*command: str) -> str:
            assert await trio.to_thread.run_sync(partial(main, [*command, *bootstrap])) == 0
            return capsys.readouterr().out

        lines = tmp_path / "lines"
        lines.write_text("x\n" * 10, encoding="utf-8")
        await run("produce", "t", str(lines), "--create", "-p", "0", "-q")
        for protocol in ("classic", "consumer"):
            options = ("-g", protocol, "--group-protocol", protocol, "--from-beginning")
            await run("consume", "t", *options, "-n", "4")
        client = await server.connect()
        reader = await join(server, "reader", "truck", [("t", [0])])
        await client.request(FindCoordinatorRequest(key="new"), 3, FindCoordinatorResponse)
        joining = JoinGroupRequest(
            group_id="new",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range")],
        )
        await client.request(joining, 3, JoinGroupResponse)
        told = {row["group"]: row for row in json.loads(await run("groups", "list", "--json"))}
        shown = await run("groups", "list")
        described = json.loads(await run("groups", "describe", "reader", "--json"))
        await reader.aclose()
        await client.aclose()
    assert [(told[one]["members"], told[one]["lag"]) for one in ("classic", "consumer", "new")] == [
        (0, 6),
        (0, 6),
        (1, None),
    ]
    assert (told["reader"]["members"], told["reader"]["lag"]) == (1, 10)
    assert [(row["committed"], row["lag"]) for row in described[0]["partitions"]] == [(None, 10)]
    assert shown.splitlines()[0].split() == ["GROUP", "STATE", "TYPE", "PROTOCOL", "MEMBERS", "LAG"]


async def test_a_streams_group_shows_who_has_which_tasks(tmp_path: Path, capsys) -> None:
    """And what keeps its members from working, with what to do."""
    settings = {**SETTINGS, "group.streams.num.standby.replicas": "1"}
    async with running_server(tmp_path / "data", settings) as server:
        at = ["-b", f"{server.host}:{server.port}"]

        async def run(*command: str) -> str:
            assert await trio.to_thread.run_sync(partial(main, ["groups", *command, *at])) == 0
            return capsys.readouterr().out

        app = StreamsClient(server)
        await error_of(server.find_coordinator(GROUP))
        await app.join("a", stateful=True)
        state, problem, *_ = (await run("explain", GROUP)).splitlines()
        assert state == f"{GROUP}: NotReady (streams)"
        assert problem == (
            f"  now: MISSING_SOURCE_TOPICS: Source topics {TOPIC} are missing: create them (kwire "
            "topics create); members get tasks with their next heartbeats"
        )
        await server.topic(TOPIC, partitions=2)
        patient = {"stateful": True, "rebalance_timeout_ms": 600_000}
        await app.join("a", **patient)  # which creates the topic of its store
        joined = await app.join("a", **patient)
        await app.join("b", **patient)
        has = {"member_epoch": joined.member_epoch, "active_tasks": joined.active_tasks}
        await app.beat("a", **has)
        told = json.loads(await run("explain", GROUP, "--json"))
        assert told["problems"] == [
            "a has yet to give back 0_1",
            "b waits for 0_1 of process a",
        ]
        [group] = json.loads(await run("describe", GROUP, "--json"))
        shown = await run("describe", GROUP)
        members = await run("describe", GROUP, "--members")
    rows = [(row["task"], row["role"], row["state"], row["member"]) for row in group["tasks"]]
    assert rows == [
        ("0_0", "active", "has", "a"),
        ("0_0", "standby", "has", "b"),
        ("0_1", "active", "to come", "b"),
        ("0_1", "standby", "has", "a"),
    ]
    assert (group["type"], group["state"], group["assignor"]) == (
        *("streams", "Reconciling", "sticky"),
    )
    assert "TASK  ROLE     STATE" in shown
    assert "orders-0" in members


async def test_a_mistyped_group_is_told_the_right_one(tmp_path: Path, capsys) -> None:
    """Or that there is none like it."""
    async with running_server(tmp_path) as server:
        bootstrap = ["-b", f"{server.host}:{server.port}"]
        run = partial(trio.to_thread.run_sync, main)
        assert await run(["topics", "create", "t", *bootstrap]) == 0
        assert await run(["consume", "t", "-g", "billing", "--exit", *bootstrap]) == 0
        for name, said in (
            ("biling", "kwire: there is no group biling: did you mean billing?\n"),
            ("zzz", "GROUP_ID_NOT_FOUND; kwire groups list shows the groups\n"),
        ):
            capsys.readouterr()
            assert await run(["groups", "describe", name, *bootstrap]) == 1
            assert capsys.readouterr().err.endswith(said)


async def test_a_share_group_is_described_and_explained(tmp_path: Path, capsys) -> None:
    """Its state, its partitions with what is left, its members; why a record came again."""
    async with running_server(tmp_path) as server:
        bootstrap = ["-b", f"{server.host}:{server.port}"]
        run = partial(trio.to_thread.run_sync, main)
        assert await run(["topics", "create", "jobs", *bootstrap]) == 0
        member = await join_share_group(server, "queue", "jobs")
        await server.produce("jobs", b"one", b"two", b"three")
        await member.fetch(max_records=2, mode=1)
        await member.acknowledge({0: [(0, 0, [ACCEPT]), (1, 1, [RELEASE])]})
        capsys.readouterr()

        assert await run(["groups", "describe", "queue", "--json", *bootstrap]) == 0
        [found] = json.loads(capsys.readouterr().out)
        assert (found["type"], found["state"], found["lag"]) == ("share", "Stable", 2)
        [row] = found["partitions"]
        assert row == {
            "topic": "jobs",
            "partition": 0,
            "start": 1,
            "lag": 2,
            "members": 1,
            "clients": ["raw"],
        }
        assert [one["partitions"] for one in found["members"]] == [["jobs-0"]]
        assert await run(["groups", "describe", "queue", *bootstrap]) == 0
        shown = capsys.readouterr().out
        assert re.search(r"TOPIC +PARTITION +START +LAG +MEMBERS +CLIENTS\n", shown)
        assert re.search(r"jobs +0 +1 +2 +1 +raw\n", shown)

        assert await run(["groups", "list", "--json", *bootstrap]) == 0
        [listed] = json.loads(capsys.readouterr().out)
        assert (listed["type"], listed["members"], listed["lag"]) == ("share", 1, 2)

        assert await run(["groups", "explain", "queue", *bootstrap]) == 0
        shown = capsys.readouterr().out
        assert "member worker-1 released offset 1: to be delivered again" in shown
        await member.client.aclose()


async def test_other_commands_name_those_for_share_groups(tmp_path: Path, capsys) -> None:
    """What a share group doesn't take is refused, and it is said what it takes."""
    async with running_server(tmp_path) as server:
        bootstrap = ["-b", f"{server.host}:{server.port}"]
        run = partial(trio.to_thread.run_sync, main)
        assert await run(["topics", "create", "jobs", *bootstrap]) == 0
        member = await join_share_group(server, "queue", "jobs")
        capsys.readouterr()
        for command, told in (
            (["groups", "reset", "queue", "--to-end"], "kwire share reset"),
            (["groups", "delete-offsets", "queue", "-t", "jobs"], "kwire share delete-offsets"),
            (["consume", "jobs", "-g", "queue"], "kwire share"),
            (["consume", "jobs", "-g", "queue", "--group-protocol", "consumer"], "kwire share"),
        ):
            assert await run([*command, *bootstrap]) == 1
            assert f"queue is a share group: {told}" in capsys.readouterr().err
        await member.client.aclose()
