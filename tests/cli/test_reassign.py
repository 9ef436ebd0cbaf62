"""``kwire reassign`` and ``kwire elections``: the plan, and what becomes of it."""

import io
import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.cli import main
from kwire.cli.progress import Bar
from kwire.cli.reassign_plan import planned
from kwire.client.leaders import TopicPartition
from kwire.metadata.changes import BrokerRegistered, PartitionsChanged
from kwire.metadata.image import BrokerImage, PartitionImage
from kwire.testing.waiting import until
from tests.support.in_process import RunningServer, running_server

NO_RACKS = {1: None, 2: None, 3: None}


def assignment(*rows: list[int]) -> dict[TopicPartition, list[int]]:
    """Partitions of topic t with these replicas."""
    return {TopicPartition("t", index): row for index, row in enumerate(rows)}


def test_what_is_even_stays_where_it_is() -> None:
    """A plan for the present brokers copies nothing."""
    present = assignment([1, 2], [2, 3], [3, 1])
    assert planned(present, NO_RACKS) == present


def test_a_broker_that_is_to_have_none_has_none() -> None:
    """And no other replica is copied than its own."""
    present = assignment([1, 2], [2, 3], [3, 1], [1, 3])
    plan = planned(present, {1: None, 2: None})
    assert all(set(nodes) == {1, 2} for nodes in plan.values())
    assert Counter(nodes[0] for nodes in plan.values()) == {1: 2, 2: 2}


def test_a_new_broker_gets_its_share_of_replicas_and_leaders() -> None:
    """With as few copies as possible: a third of them."""
    present = assignment(*([1, 2] for _ in range(6)))
    plan = planned(present, NO_RACKS)
    assert Counter(node for nodes in plan.values() for node in nodes) == {1: 4, 2: 4, 3: 4}
    assert Counter(nodes[0] for nodes in plan.values()) == {1: 2, 2: 2, 3: 2}
    copied = sum(len(set(plan[one]) - set(present[one])) for one in present)
    assert copied == 4


def test_a_partition_keeps_its_racks() -> None:
    """A new replica goes to a rack that has none, although another broker has fewer."""
    racks = {1: "a", 2: "a", 3: "b"}
    plan = planned(assignment([1], [3], [3]), racks, 2)
    assert all(3 in nodes and len(set(nodes)) == 2 for nodes in plan.values())


def test_more_replicas_than_brokers_are_refused() -> None:
    """The partition is named."""
    with pytest.raises(ValueError, match="t-0 is to have 3 replicas, and there are 2 brokers"):
        planned(assignment([1]), {1: None, 2: None}, 3)


@pytest.mark.parametrize("draws", [True, False])
def test_a_bar_shows_how_much_is_done(draws: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a terminal; elsewhere nothing is written."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return draws

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with Bar("partitions moved", 3) as bar:
        for done in range(4):
            bar.show(done)
    shown = screen.getvalue().split("\r\x1b[K")
    assert shown == (
        [
            "",
            f"[{'.' * 30}] 0 of 3 partitions moved",
            f"[{'#' * 10}{'.' * 20}] 1 of 3 partitions moved",
            f"[{'#' * 20}{'.' * 10}] 2 of 3 partitions moved",
            f"[{'#' * 30}] 3 of 3 partitions moved\n",
        ]
        if draws
        else [""]
    )


class Shell:
    """Commands on a cluster of three brokers, of which one runs."""

    def __init__(self, server: RunningServer, capsys: Any) -> None:
        self.broker = server.broker
        self._address = ["-b", f"{server.host}:{server.port}", "--timeout", "5"]
        self._capsys = capsys

    async def __call__(self, *command: str, code: int = 0) -> str:
        """What a command prints; with the code 0 on stdout, else on stderr."""
        self._capsys.readouterr()
        words = [*command, *self._address]
        assert await trio.to_thread.run_sync(partial(main, words)) == code, (
            self._capsys.readouterr()
        )
        said = self._capsys.readouterr()
        return str(said.err if code else said.out)

    @property
    def row(self) -> PartitionImage:
        """The partition as the cluster has it."""
        return self.broker.image.topics_by_name["t"].partitions[0]

    async def change(self, **fields: Any) -> None:
        """Change the partition as brokers do."""
        topic = self.broker.image.topics_by_name["t"]
        row = self.row._replace(**fields)
        await self.broker.commit(lambda image: [PartitionsChanged(topic.topic_id, ((0, row),))])


@pytest.fixture
async def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Topic t has one partition, on brokers 1 and 2."""
    async with running_server(tmp_path / "data") as server:
        ports = (("PLAINTEXT", "127.0.0.1", 1),)
        others = [BrokerRegistered(BrokerImage(node, None, ports, "x", epoch=1)) for node in (2, 3)]
        await server.broker.commit(lambda image: others)
        await server.topic("t", replicas=2)
        shell = Shell(server, capsys)
        await shell.change(leader=1, replicas=(1, 2), isr=(1, 2))
        yield shell


async def test_a_plan_is_shown_written_and_carried_out(shell: Shell, tmp_path: Path) -> None:
    """In the format of Kafka's tool; the command ends when the replica is moved."""
    plan = ("reassign", "plan", "t", "--brokers", "1,3")
    assert (await shell(*plan)).splitlines()[1].split() == ["t", "0", "1,2", "1,3"]
    document = await shell(*plan, "--json")
    assert json.loads(document) == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 3]}],
    }
    file = tmp_path / "plan.json"
    file.write_text(document, encoding="utf-8")
    run = ("reassign", "run", "--file", str(file))
    assert await shell(*run, "--dry-run") == "would move t-0 from 1,2 to 1,3\n"
    assert "no replica is being moved" not in await shell("reassign", "status")
    assert shell.row.replicas == (1, 2)
    said: list[str] = []

    async def carry_out() -> None:
        said.append(await shell(*run))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(carry_out)
        await until(lambda: 3 in shell.row.replicas)
        await shell.change(replicas=(1, 3), isr=(1, 3), adding=(), removing=())
    assert said == ["done: move t-0 from 1,2 to 1,3\n"]


async def test_nothing_to_move_is_said(shell: Shell) -> None:
    """The replicas are where the plan wants them."""
    said = await shell("reassign", "run", "t", "--brokers", "1,2")
    assert said == "nothing has to be moved: the replicas are there already\n"


async def test_a_move_is_shown_until_it_is_cancelled(shell: Shell) -> None:
    """Afterwards the replicas are where they were."""
    move = ("reassign", "run", "t:0", "--brokers", "1,3", "--no-wait")
    assert await shell(*move) == "begun: move t-0 from 1,2 to 1,3\n"
    shown = (await shell("reassign", "status", "t")).splitlines()[1].split()
    assert (shown[:2], shown[3:]) == (["t", "0"], ["3", "2"])
    assert json.loads(await shell("reassign", "status", "other", "--json")) == []
    cancel = ("reassign", "cancel", "t")
    assert await shell(*cancel, "--dry-run") == "would cancel the move of t-0 to 3\n"
    assert await shell(*cancel) == "done: cancel the move of t-0 to 3\n"
    assert shell.row.replicas == (1, 2)
    assert "no such replica is being moved" in await shell(*cancel, code=1)


LIMITS = ("leader.replication.throttled", "follower.replication.throttled")


async def limits(shell: Shell) -> list[tuple[str, str]]:
    """The limits of topic t and of broker 1 that are set."""
    found = []
    for resource in (("topic", "t"), ("broker", "1")):
        rows = json.loads(await shell("configs", "describe", *resource, "--json"))
        found += [(row["name"], row["value"]) for row in rows if row["name"].startswith(LIMITS)]
    return sorted(found)


async def test_what_moves_is_slowed_down_until_it_is_moved(shell: Shell) -> None:
    """By what Kafka's tool sets; who doesn't wait takes the limits away by a command."""
    own = shell.broker.image.brokers[1].endpoints
    answers = [BrokerRegistered(BrokerImage(node, None, own, "x", epoch=1)) for node in (2, 3)]
    await shell.broker.commit(lambda image: answers)
    assert await limits(shell) == []
    run = ("reassign", "run", "t", "--brokers", "1,3", "--throttle", "1000")
    set_now = [
        (f"{LIMITS[1]}.rate", "1000"),
        (f"{LIMITS[1]}.replicas", "0:3"),
        (f"{LIMITS[0]}.rate", "1000"),
        (f"{LIMITS[0]}.replicas", "0:1,0:2"),
    ]
    await shell(*run, "--no-wait")
    assert await limits(shell) == set_now
    await shell("reassign", "cancel", "t")
    unthrottle = ("reassign", "unthrottle", "t")
    assert await shell(*unthrottle, "--dry-run") == (
        "would take the limits from 1 topics and all brokers\n"
    )
    assert await limits(shell) == set_now
    await shell(*unthrottle)
    assert await limits(shell) == []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(shell, *run))
        await until(lambda: 3 in shell.row.replicas)
        assert await limits(shell) == set_now
        await shell.change(replicas=(1, 3), isr=(1, 3), adding=(), removing=())
    assert await limits(shell) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--brokers", "1-9"], "there is no broker 4; kwire cluster brokers shows them"),
        (["-r", "4"], "t-0 is to have 4 replicas, and there are 3 brokers"),
        (["--file", "/nonexistent"], "cannot read /nonexistent: No such file or directory"),
        (["--file", "/etc/hostname"], "/etc/hostname is no plan"),
    ],
)
async def test_a_plan_that_is_none(shell: Shell, arguments: list[str], said: str) -> None:
    """One line says why."""
    assert said in await shell("reassign", "run", *arguments, code=1)


async def test_elections_are_listed_and_held(shell: Shell) -> None:
    """Of partitions that another replica than the first leads, and of those without a leader."""
    assert json.loads(await shell("elections", "list", "--json")) == []
    assert await shell("elections", "run") == "no election is needed\n"
    await shell.change(leader=2)
    shown = (await shell("elections", "list")).splitlines()[1].split()
    assert shown == ["t", "0", "2", "1", "1,2", "1,2"]
    run = ("elections", "run", "t")
    assert await shell(*run, "--dry-run") == "would elect 1 as the leader of t-0\n"
    assert shell.row.leader == 2
    assert await shell(*run) == "t-0 is led by 1\n"
    assert shell.row.leader == 1
    await shell.change(leader=-1, isr=())
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in await shell(*run, code=1)
    unclean = (*run, "--unclean")
    dry = await shell(*unclean, "--dry-run")
    assert dry == "would elect a replica of t-0 that may lack records\n"
    assert shell.row.leader == -1
    assert await shell(*unclean) == "t-0 is led by 1\n"
    assert shell.row.leader == 1
