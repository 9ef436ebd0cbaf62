"""How far verify looks: also where the sink has lost all rows, and never at another topic's."""

from pathlib import Path

import pytest
import trio

from kwire.client.cluster import open_cluster
from kwire.client.topics import create_topics, delete_topics
from kwire.spark import expired_rows
from kwire.spark.checkpoint import Checkpoint, Offsets, as_json
from kwire.spark.comparison import BrokerOffsets, Claim, Compared, compare, with_finished
from kwire.spark.expire import bounded
from kwire.spark.expired_rows import ExpiredRows
from kwire.spark.incarnations import Incarnations
from kwire.spark.offset_runs import OffsetRuns
from kwire.spark.settings import PipelineSettings, SinkSettings, Source
from kwire.spark.storage import LocalStorage
from kwire.spark.upkeep import Cutoff
from kwire.spark.verify import beginning, check_empty, check_topics
from tests.support.in_process import running_server

PLACE = ("t", 0)


def begin_of(top: Path, place: tuple[str, int] = PLACE) -> int | None:
    """Where the rows of a partition should begin."""
    storage = LocalStorage(top)
    first = Checkpoint(LocalStorage(top / "spark-0"))
    return beginning(Incarnations(storage), first, storage)(place)


def starts_at(top: Path, offsets: Offsets) -> None:
    """The checkpoint of a pipeline that began at some offsets."""
    LocalStorage(top).write("spark-0/sources/0/0", b"\0v1\n" + as_json(offsets).encode())


def compared(claims: dict[tuple[str, int], Claim], begin: int | None) -> Compared:
    """The outcome, with 100 records of which the pipeline has finished 90."""
    found = with_finished(claims, {PLACE: 90}, lambda _: begin)
    broker = BrokerOffsets(OffsetRuns([(0, 100)]), 0, 100)
    return compare(PLACE, found[PLACE], broker, finished=90)


def test_rows_that_the_sink_has_lost_at_its_ends_are_gaps() -> None:
    """The table is gone, or a partition of it, or its last rows, or its first."""
    assert compared({}, 0).gaps == 90
    assert compared({}, 40).gaps == 50
    tail_lost = Claim(OffsetRuns([(0, 10)]), rows=10, first=0, end=10)
    assert compared({PLACE: tail_lost}, 0).gaps == 80
    head_lost = Claim(OffsetRuns([(50, 95)]), rows=45, first=50, end=95)
    assert compared({PLACE: head_lost}, 0).gaps == 50


def test_where_nobody_knows_the_beginning_the_sink_says_it() -> None:
    """Of rows that have expired by their age nobody knows the offsets."""
    kept = Claim(OffsetRuns([(50, 90)]), rows=40, first=50, end=90)
    assert compared({PLACE: kept}, None).is_exact
    assert compared({}, None).is_exact
    with pytest.raises(RuntimeError, match="the sink holds nothing"):
        check_empty({PLACE: 90}, lambda _: None)
    check_empty({PLACE: 90}, lambda _: 0)
    check_empty({PLACE: 0}, lambda _: None)


def test_the_beginning_of_a_pipeline(tmp_path: Path) -> None:
    """Its first checkpoint's; of a topic created again and of a new partition the whole."""
    assert begin_of(tmp_path) is None
    starts_at(tmp_path, {PLACE: 7})
    assert begin_of(tmp_path) == 7
    assert begin_of(tmp_path, ("t", 1)) == 0
    topics = Incarnations(LocalStorage(tmp_path))
    topics.note({"t": "a"})
    topics.begin_epoch({"t": "b"}, "{}")
    assert begin_of(tmp_path) == 0


def test_what_expire_has_taken_is_not_missing(tmp_path: Path) -> None:
    """By offset it is known what should be there, by age it isn't."""
    starts_at(tmp_path, {PLACE: 7})
    for offset in (50, 30):
        ExpiredRows(LocalStorage(tmp_path)).record(Cutoff(None, *PLACE, offset))
    assert begin_of(tmp_path) == 50
    assert begin_of(tmp_path, ("t", 1)) == 0
    ExpiredRows(LocalStorage(tmp_path)).record(Cutoff(before_ms=1))
    assert begin_of(tmp_path) is None
    assert (tmp_path / expired_rows.FILE).exists()


def test_an_offset_that_is_not_read_yet_does_not_expire(tmp_path: Path) -> None:
    """Otherwise verify would be blind for records of the future: a typing error is enough."""
    starts_at(tmp_path, {PLACE: 7})
    storage = LocalStorage(tmp_path)
    assert bounded(Cutoff(None, *PLACE, 10**12), storage, None).before_offset == 7
    assert bounded(Cutoff(None, *PLACE, 5), storage, None).before_offset == 5
    assert bounded(Cutoff(None, "t", 9, 5), storage, None).before_offset == 0


async def test_a_topic_that_was_created_again_and_refilled(tmp_path: Path) -> None:
    """It has records at the same offsets, which are none of the table's rows."""
    async with (
        running_server(tmp_path / "broker") as server,
        open_cluster([(server.host, server.port)]) as cluster,
    ):
        source = Source(f"{server.host}:{server.port}", ("t",))
        settings = PipelineSettings("p", source, SinkSettings("delta", "/t"), "/checkpoint")

        async def check() -> None:
            await trio.to_thread.run_sync(check_topics, settings, topics, {"t"})

        await create_topics(cluster, ["t"], partitions=1)
        topics = Incarnations(LocalStorage(tmp_path))
        await check()
        topics.note({"t": (await cluster.topics(["t"]))["t"].topic_id.hex()})
        await check()
        await delete_topics(cluster, ["t"])
        await create_topics(cluster, ["t"], partitions=1)
        with pytest.raises(RuntimeError, match="t was created again"):
            await check()
