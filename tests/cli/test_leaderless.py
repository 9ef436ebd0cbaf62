"""``kwire consume`` without ``--exit``, of topics with partitions that have no leader."""

from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.cli.leaderless import Leaderless
from kwire.cli.positions import BEGINNING, END, OFFSET, Start, late
from kwire.client.cluster import open_cluster
from kwire.client.leaders import TopicPartition
from kwire.errors import KafkaError
from kwire.metadata.changes import PartitionsChanged
from kwire.metadata.image import PartitionImage
from kwire.testing.waiting import until
from tests.cli.test_to_the_end import LOST, add, run
from tests.support.in_process import RunningServer, running_server

NAMED = "kwire: t-1 has no leader; the other partitions are read"
OVER = "kwire: all partitions have a leader again"
T0, T1, T2 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2)

pytestmark = pytest.mark.usefixtures("short_moments")


@pytest.fixture
async def server(tmp_path: Path):
    """A broker with topic t, whose only partition with a leader has two records."""
    async with running_server(tmp_path / "data") as found:
        await write(found, tmp_path, "a", "b")
        await add(found, "t", LOST)
        yield found


async def write(server: RunningServer, directory: Path, *values: str, to: int = 0) -> None:
    """Write records to a partition of topic t."""
    path = directory / "lines"
    path.write_text("".join(f"{value}\n" for value in values), encoding="utf-8")
    assert await run(server, "produce", "t", str(path), "-q", "-p", str(to), "--create") == 0


async def mend(server: RunningServer, epoch: int = 4) -> None:
    """Give the partition a leader."""
    await _change(server, PartitionImage(1, epoch, (1,), (1,), partition_epoch=epoch))


async def lose(server: RunningServer, epoch: int) -> None:
    """Take the leader from the partition."""
    await _change(server, PartitionImage(-1, epoch, (1,), (1,), partition_epoch=epoch))


async def _change(server: RunningServer, row: PartitionImage) -> None:
    await server.broker.commit(
        lambda image: [PartitionsChanged(image.topics_by_name["t"].topic_id, ((1, row),))]
    )


async def test_tail_prints_the_other_partitions_and_fails(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script sees that something is missing."""
    assert await run(server, "consume", "t", "--tail", "5") == 1
    told = capsys.readouterr()
    assert told.out == "a\nb\n"
    assert told.err.splitlines() == [NAMED]


@pytest.mark.parametrize(
    "options",
    [
        ["-g", "g", "--from-beginning"],
        ["-g", "g", "--from-beginning", "--group-protocol", "consumer"],
        ["--tail", "9", "--follow"],
        ["--from-beginning"],
    ],
    ids=["group", "consumer group", "tail", "alone"],
)
async def test_the_others_are_read_until_the_partition_has_a_leader(
    server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    """Then it is read too, from where the command would have begun; each thing is said once."""
    ended: list[int] = []
    out = err = ""

    def told(what: str) -> bool:
        nonlocal out, err
        some = capsys.readouterr()
        out, err = out + some.out, err + some.err
        return what in out + err

    async def consume() -> None:
        ended.append(await run(server, "consume", "t", "-n", "4", *options))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(consume)
        await until(lambda: told("b\n"))
        await until(lambda: told(NAMED))
        await write(server, tmp_path, "c")
        await until(lambda: told("c\n"))
        await mend(server)
        await write(server, tmp_path, "d", to=1)
    told("")
    assert (ended, out) == ([0], "a\nb\nc\nd\n")
    assert err.splitlines() == [NAMED, OVER]


@pytest.mark.parametrize(
    ("start", "position"),
    [(Start(END), 2), (Start(OFFSET, -1), 1), (Start(OFFSET, -9), 0), (Start(BEGINNING), 0)],
    ids=["end", "tail", "long tail", "beginning"],
)
async def test_what_is_written_before_the_next_look_is_not_passed_over(
    server: RunningServer, tmp_path: Path, start: Start, position: int
) -> None:
    """The place is that before the election, or the end if nothing has been written since."""
    await mend(server)
    await write(server, tmp_path, "x", "y", to=1)
    await lose(server, 5)
    async with open_cluster([(server.host, server.port)]) as cluster:
        _, without = await Leaderless(cluster).split([T0, T1])
        assert without == {T1: 5}
        place = late(cluster, without, start).place
        await mend(server, 6)
        assert await place([T1]) == {T1: position}
        await write(server, tmp_path, "d1", "d2", to=1)
        assert await place([T1]) == {T1: position}


async def test_a_place_is_asked_for_once(server: RunningServer) -> None:
    """The reader asks again, and sees then whether there is a leader."""
    async with open_cluster([(server.host, server.port)]) as cluster:
        with pytest.raises(KafkaError, match="t-1 has no leader"), trio.fail_after(10):
            await late(cluster, {T1: 3}, Start(END)).place([T1])


async def test_a_group_that_has_committed_reads_on_too(
    server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when the partition without a leader has a committed offset."""
    consume = ["consume", "t", "-g", "g", "--from-beginning"]
    await mend(server)
    await write(server, tmp_path, "x", to=1)
    assert await run(server, *consume, "-n", "3") == 0
    assert sorted(capsys.readouterr().out.split()) == ["a", "b", "x"]
    await lose(server, 5)
    await write(server, tmp_path, "c")
    assert await run(server, *consume, "-n", "1") == 0
    told = capsys.readouterr()
    assert (told.out, told.err.splitlines()) == ("c\n", [NAMED])


async def test_without_any_leader_nothing_is_said_of_others(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is waited for, as before."""
    assert await run(server, "consume", "t", "-p", "1", "--tail", "1", "--timeout", "1s") == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "the other partitions" not in told.err
    assert "t-1 has no leader: LEADER_NOT_AVAILABLE" in told.err.splitlines()[-1]


async def test_a_short_election_is_not_told_and_a_long_one_once(
    mock_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """However often it is looked at, and whatever comes in addition."""
    async with open_cluster([("h", 1)]) as cluster:
        leaderless = Leaderless(cluster)
        assert not leaderless.now([T1])
        mock_clock.jump(0.9)
        assert leaderless.now([])
        for _ in range(9):
            leaderless.now([T1])
            mock_clock.jump(0.5)
        assert not leaderless.now([T1, T2])
        mock_clock.jump(1)
        assert leaderless.now([T1, T2])
        assert leaderless.now([T2])
        assert capsys.readouterr().err.splitlines() == [NAMED, NAMED.replace("1", "2")]
        assert leaderless.now([])
        assert leaderless.now([])
    assert capsys.readouterr().err.splitlines() == [OVER]


async def test_a_partition_that_another_member_has_is_forgotten(
    mock_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody here knows whether it has a leader again; and it may be named anew."""
    async with open_cluster([("h", 1)]) as cluster:
        leaderless = Leaderless(cluster)
        for _ in range(2):
            leaderless.now([T1])
            mock_clock.jump(1)
            leaderless.now([T1])
            leaderless.only([T2])
            leaderless.now([])
    assert capsys.readouterr().err.splitlines() == [NAMED, NAMED]
