"""Which offsets replay means, and what it refuses: records that the table would lose."""

import argparse
from pathlib import Path

import pytest
import trio

from kwire.client.cluster import open_cluster
from kwire.client.configs import Change, Resource, ResourceType, alter_configs
from kwire.client.deletion import delete_records
from kwire.client.leaders import TopicPartition
from kwire.client.moving import marked
from kwire.client.producer import produce
from kwire.client.topics import create_topics
from kwire.record.records import BatchBuilder
from kwire.spark import expire, replay
from kwire.spark.batch import OffsetRange
from kwire.spark.broker_offsets import ask_broker
from kwire.spark.incarnations import Incarnations
from kwire.spark.offset_runs import OffsetRuns
from kwire.spark.settings import PipelineSettings, SinkSettings, Source, WrongSetting
from kwire.spark.storage import LocalStorage
from kwire.spark.upkeep import Cutoff
from kwire.spark.upkeep.commands import size
from kwire.spark.upkeep.conditions import Columns, of_cutoff, of_range, within
from tests.support.in_process import running_server


@pytest.fixture
async def server(tmp_path: Path):
    """A broker."""
    async with running_server(tmp_path) as found:
        yield found


@pytest.fixture
async def cluster(server):
    """A client of the broker; topic t has records 0-9 at 0, 1000, … ms in two partitions."""
    async with open_cluster([(server.host, server.port)]) as found:
        await create_topics(found, ["t"], partitions=2)
        builder = BatchBuilder()
        for number in range(10):
            builder.add(1_700_000_000_000 + number * 1000, None, b"v")
        batch = bytes(builder.build())
        await produce(found, {TopicPartition("t", 0): batch, TopicPartition("t", 1): batch})
        yield found


def options(*arguments: str) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser()
    replay.add_arguments(parser)
    return parser.parse_args(["orders.toml", "--topic", "t", *arguments])


async def test_ranges_by_offset_and_time(cluster):
    """One partition or all; to the end without an end; empty ranges are left out."""
    wanted = replay.wanted_ranges
    assert await wanted(cluster, options()) == [OffsetRange("t", one, 0, 10) for one in (0, 1)]
    both = options("--partition", "1", "--from-offset", "3", "--to-offset", "7")
    assert await wanted(cluster, both) == [OffsetRange("t", 1, 3, 7)]
    time = ["--from-time", "2023-11-14T22:13:24+00:00", "--to-time", "2023-11-14T22:13:26+00:00"]
    assert await wanted(cluster, options("--partition", "0", *time)) == [OffsetRange("t", 0, 4, 6)]
    late = options("--from-time", "2030-01-01T00:00:00+00:00")
    assert await wanted(cluster, late) == []
    with pytest.raises(ValueError, match="no partition 9"):
        await wanted(cluster, options("--partition", "9"))


async def test_records_that_are_gone_are_not_replaced_by_nothing(server, cluster):
    """A deleted range and a compacted topic are refused, with the way out."""
    source = Source(f"{server.host}:{server.port}", ("t",))
    settings = PipelineSettings("p", source, SinkSettings("delta", "/t"), "/checkpoint")
    whole = [OffsetRange("t", 0, 0, 10)]

    async def check() -> None:
        await trio.to_thread.run_sync(replay.check_complete, settings, whole)

    await check()
    await delete_records(cluster, {TopicPartition("t", 0): 4})
    with pytest.raises(ValueError, match="--from-offset 4, or add --partial"):
        await check()
    change = Change({"cleanup.policy": "compact"}, [])
    await alter_configs(cluster, Resource(ResourceType.TOPIC, "t"), change)
    with pytest.raises(ValueError, match="t is compacted"):
        await check()


def test_a_cluster_that_cannot_be_asked_is_one_line() -> None:
    """The address, or the setting that kwire's client can't use."""

    async def nothing(_cluster: object) -> None:
        raise AssertionError

    source = Source("127.0.0.1:1", client={"security.protocol": "SASL_SSL"})
    with pytest.raises(WrongSetting, match=r"source\.client\.sasl\.mechanism"):
        ask_broker(source, nothing)


def test_what_expire_is_asked_for() -> None:
    """An age, or an offset of one partition."""
    parser = argparse.ArgumentParser()
    expire.add_arguments(parser)
    found = parser.parse_args(["f", "--older-than", "1h"])
    assert expire.cutoff_of(found, 10_000_000) == Cutoff(before_ms=6_400_000)
    found = parser.parse_args(["f", "--before-offset", "5", "--topic", "t", "--partition", "0"])
    assert expire.cutoff_of(found, 0) == Cutoff(None, "t", 0, 5)
    with pytest.raises(ValueError, match="needs --topic"):
        expire.cutoff_of(parser.parse_args(["f", "--before-offset", "5"]), 0)


def test_conditions_of_tables() -> None:
    """Names are quoted; an age needs the column with the timestamps."""
    plain = Columns(has_incarnation=False)
    assert of_range(OffsetRange("it's", 3, 1, 5), plain) == (
        "(_topic = 'it''s' AND _partition = 3 AND _offset >= 1 AND _offset < 5)"
    )
    by_age = Cutoff(before_ms=1_700_000_000_000)
    assert of_cutoff(by_age, SinkSettings("delta", metadata=("timestamp",)), plain) == (
        "_timestamp < '2023-11-14T22:13:20.000000+00:00'"
    )
    with pytest.raises(WrongSetting, match="timestamp"):
        of_cutoff(by_age, SinkSettings("delta"), plain)


def test_conditions_tell_topics_apart_that_had_the_same_name() -> None:
    """Rows of before a topic was created again are not those of a range of it, and vice versa."""
    columns = Columns.of(["_offset", "_incarnation"])
    assert "AND _incarnation IS NULL)" in of_range(OffsetRange("t", 0, 1, 5), columns)
    again = OffsetRange("t", 0, 1, 5, 2)
    assert "AND _incarnation = 2)" in of_range(again, columns)
    assert "AND false)" in of_range(again, Columns(has_incarnation=False))
    assert within(again, [OffsetRange("t", 0, 0, 9)]) == []
    assert within(again, [OffsetRange("t", 0, 0, 9, 2)]) == [again]


def test_replay_writes_nothing_beyond_what_a_table_has() -> None:
    """The stream will write it, and it would be there twice."""
    held = [OffsetRange("t", 0, 10, 50), OffsetRange("t", 1, 0, 99)]
    assert within(OffsetRange("t", 0, 0, 99), held) == [OffsetRange("t", 0, 10, 50)]
    assert within(OffsetRange("t", 0, 60, 99), held) == []


def test_sizes() -> None:
    """Bytes, or with a unit."""
    assert (size("5"), size("64KiB"), size("1GiB")) == (5, 65536, 2**30)
    for wrong in ("0", "x", "5MB", "-1"):
        with pytest.raises(argparse.ArgumentTypeError):
            size(wrong)


def test_records_that_became_undecodable_are_not_replaced_by_nothing():
    """Dead letters may fail again; a record that has a row may not."""
    failed = {("t", 0): OffsetRuns([(2, 4), (7, 8)])}
    replay.check_dead({}, {})
    replay.check_dead(failed, {("t", 0): OffsetRuns([(0, 10)])})
    with pytest.raises(ValueError, match=r"t-0: 2 records .* first at offset 3; .*add --partial"):
        replay.check_dead(failed, {("t", 0): OffsetRuns([(0, 3)])})
    with pytest.raises(ValueError, match="first at offset 2"):
        replay.check_dead(failed, {("t", 1): OffsetRuns([(0, 10)])})


async def test_a_dead_letter_that_became_a_row_is_not_sent_again(cluster, tmp_path: Path):
    """It is marked as sent, under both names that it may have; one that fails again isn't."""
    topics = Incarnations(LocalStorage(tmp_path))
    dead = {("t", 0): OffsetRuns([(1, 4), (8, 9)]), ("t", 1): OffsetRuns([(2, 3)])}
    failed = {("t", 0): OffsetRuns([(2, 3)])}
    ranges = [OffsetRange("t", 0, 0, 8)]
    assert replay.replaced_names(ranges, failed, dead, topics) == {"t/0/1", "t/0/3"}
    topics.note({"t": "id"})
    names = replay.replaced_names(ranges, failed, dead, topics)
    assert names == {"t/0/1", "t/0/1@id", "t/0/3", "t/0/3@id"}
    again = [OffsetRange("t", 0, 0, 2, 1)]
    assert replay.replaced_names(again, failed, dead, topics) == {"t/0/1@id"}
    for _ in range(2):
        await replay.mark(cluster, "p-replayed", names)
    assert await marked(cluster, "p-replayed") == names


def test_what_delta_needs_is_kept_for_an_hour() -> None:
    """Less is refused before rows are deleted; other kinds have no such files."""
    for kind in ("delta", "delta-rs"):
        with pytest.raises(ValueError, match=r"--keep-versions is 3599s: .* give 1h or more"):
            expire.check_keep(kind, 3599)
        expire.check_keep(kind, 3600)
    expire.check_keep("parquet", 0)
