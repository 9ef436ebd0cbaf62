"""``kwire consume --exit`` with partitions that have no leader."""

import socket
from functools import partial
from pathlib import Path

import pytest
import trio

from kwire.cli import main
from kwire.metadata.changes import BrokerRegistered, PartitionsAdded, PartitionsChanged
from kwire.metadata.image import BrokerImage, PartitionImage
from kwire.testing.waiting import until
from tests.support.in_process import RunningServer, running_server

LOST = PartitionImage(-1, 3, (2,), (2,))
"""A partition of a broker that is not there."""

DEAD = PartitionImage(2, 3, (2,), (2,))
"""A partition that a broker leads which has just died, so that the cluster still names it."""

pytestmark = pytest.mark.usefixtures("short_moments")


async def run(server: RunningServer, *arguments: str) -> int:
    """Run a command in a thread, beside the broker."""
    address = f"{server.host}:{server.port}"
    return await trio.to_thread.run_sync(partial(main, [*arguments, "-b", address]))


async def add(server: RunningServer, topic: str, *partitions: PartitionImage) -> None:
    """Add partitions to a topic."""
    await server.broker.commit(
        lambda image: [PartitionsAdded(image.topics_by_name[topic].topic_id, partitions)]
    )


@pytest.fixture
async def server(tmp_path: Path):
    """A broker with topic t, whose only partition has two records."""
    async with running_server(tmp_path / "data") as found:
        path = tmp_path / "lines"
        path.write_text("a\nb\n", encoding="utf-8")
        await run(found, "produce", "t", str(path), "-q", "--create")
        yield found


@pytest.mark.parametrize(
    ("lost", "said"),
    [(1, "t-1 has no leader"), (7, "t-1, t-2, t-3, t-4, t-5 and 2 more have no leader")],
)
async def test_the_others_are_printed_and_the_partition_is_named(
    server: RunningServer, lost: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also after the time for which it waits; health says what to do."""
    await add(server, "t", *[LOST] * lost)
    consume = ["consume", "t", "--from-beginning", "--exit", "--timeout", "1s"]
    assert await run(server, *consume) == 1
    told = capsys.readouterr()
    assert told.out == "a\nb\n"
    error = f"kwire: {said}, the records of the other partitions are printed: LEADER_NOT_AVAILABLE"
    assert told.err.splitlines()[-1].startswith(f"{error}; kwire health says")


async def test_who_has_printed_enough_waits_for_no_leader(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The end is reached before it is the turn of the other partition."""
    await add(server, "t", LOST)
    assert await run(server, "consume", "t", "--from-beginning", "--exit", "-n", "1") == 0
    assert capsys.readouterr().out == "a\n"


async def test_a_partition_that_gets_a_leader_is_read_too(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the others."""
    await add(server, "t", LOST)
    ended: list[int] = []
    out = err = ""

    def is_waiting() -> bool:
        nonlocal out, err
        told = capsys.readouterr()
        out, err = out + told.out, err + told.err
        return "t-1 has no leader" in err

    async def consume() -> None:
        ended.append(await run(server, "consume", "t", "--from-beginning", "--exit"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        await until(is_waiting)
        row = PartitionImage(1, 4, (1,), (1,), partition_epoch=1)
        await server.broker.commit(
            lambda image: [PartitionsChanged(image.topics_by_name["t"].topic_id, ((1, row),))]
        )
    assert (ended, out) == ([0], "a\nb\n")


async def test_without_any_leader_nothing_is_printed(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then the line doesn't speak of other partitions."""
    await add(server, "t", LOST)
    arguments = ["--from-beginning", "--exit", "-p", "1", "--timeout", "1s"]
    assert await run(server, "consume", "t", *arguments) == 1
    told = capsys.readouterr()
    assert told.out == ""
    last = told.err.splitlines()[-1]  # before it, a line may say that it waits
    assert last.startswith("kwire: t-1 has no leader: LEADER_NOT_AVAILABLE; kwire health says")


async def test_a_leader_that_does_not_answer_holds_up_no_other_partition(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is asked once before the others are read, and again after that."""
    await add(server, "t", DEAD)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    dead = BrokerImage(2, None, (("PLAINTEXT", "127.0.0.1", port),))
    await server.broker.commit(lambda _: [BrokerRegistered(dead)])
    consume = ["consume", "t", "--from-beginning", "--exit", "--timeout", "1s"]
    assert await run(server, *consume) == 1
    told = capsys.readouterr()
    assert told.out == "a\nb\n"
    assert "onnection refused" in told.err.splitlines()[-1]
