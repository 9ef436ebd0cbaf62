"""Reading partitions: positions, deleted records, aborted transactions, leaders that move."""

from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from kwire.client.cluster import open_cluster
from kwire.client.deletion import delete_records
from kwire.client.errors import CannotConnect
from kwire.client.fetcher import Fetcher, Late
from kwire.client.leaders import TopicPartition, first_error
from kwire.client.offsets import LATEST, all_or_raise, ends_of, list_offsets
from kwire.client.producer import produce
from kwire.client.settings import ClientSettings
from kwire.client.topics import create_topics
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kwire.record.batch import InvalidRecords
from kwire.record.records import BatchBuilder, records
from tests.support.in_process import running_server
from tests.support.raw_producer import RawProducer

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(*values: bytes, base_offset: int = 0) -> bytes:
    """A batch with a record for each value."""
    builder = BatchBuilder(base_offset)
    for value in values:
        builder.add(0, None, value)
    return bytes(builder.build())


async def read(fetcher: Fetcher, ends: dict[TopicPartition, int]) -> dict[TopicPartition, list]:
    """The values up to the ends."""
    found: dict[TopicPartition, list] = {one: [] for one in ends}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetcher.run)
        while any(fetcher.positions[one] < end for one, end in ends.items()):
            fetched = await fetcher.next()
            found[fetched.partition] += [record.value for record in fetched.records]
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    return found


@pytest.fixture
async def server(tmp_path: Path):
    """A broker."""
    async with running_server(tmp_path) as found:
        yield found


@pytest.fixture
async def cluster(server):
    """A client of the broker, with topic t of two partitions."""
    async with open_cluster([(server.host, server.port)]) as found:
        await create_topics(found, ["t"], partitions=2)
        yield found


async def test_all_partitions_are_read_from_their_positions(cluster):
    """A position within a batch leaves out the records before it."""
    await produce(cluster, {T0: batch(b"a", b"b", b"c"), T1: batch(b"x")})
    found = await read(Fetcher(cluster, {T0: 1, T1: 0}), {T0: 3, T1: 1})
    assert found == {T0: [b"b", b"c"], T1: [b"x"]}


async def test_deleted_records_are_passed_over_and_told(cluster):
    """Reading goes on at the log start offset."""
    await produce(cluster, {T0: batch(b"a", b"b", b"c")})
    await delete_records(cluster, {T0: 2})
    told = []
    fetcher = Fetcher(cluster, {T0: 0}, moved=lambda *what: told.append(what))
    assert await read(fetcher, {T0: 3}) == {T0: [b"c"]}
    assert told == [(T0, 0, 2)]


async def test_an_offset_beyond_the_end_is_an_error(cluster):
    """With the offsets that there are."""
    await produce(cluster, {T0: batch(b"a")})
    with pytest.raises(BaseExceptionGroup) as caught:
        await read(Fetcher(cluster, {T0: 5}), {T0: 6})
    error = first_error(caught.value)
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert "t-0 has the offsets 0 to 1, and 5 was asked for" in str(error)


async def test_read_committed_leaves_out_aborted_and_open_transactions(server, cluster):
    """Of three transactions only the committed one is read, and the markers never."""
    producer = RawProducer(await server.connect(), "tx")
    await producer.init()
    for value, committed in ((b"aborted", False), (b"committed", True)):
        await producer.produce("t", 0, value)
        await producer.end(committed=committed)
    await produce(cluster, {T0: batch(b"plain")})
    await producer.produce("t", 0, b"open")
    stable = await ends_of(cluster, [T0], read_committed=True)
    found = await read(Fetcher(cluster, {T0: 0}, read_committed=True), stable)
    assert found == {T0: [b"committed", b"plain"]}
    everything = await read(Fetcher(cluster, {T0: 0}), await ends_of(cluster, [T0]))
    assert everything == {T0: [b"aborted", b"committed", b"plain", b"open"]}
    await producer.client.aclose()


async def test_a_wrong_checksum_is_an_error_unless_the_caller_reads_on(brokers, autojump_clock):
    """The check is a part of reading a batch."""
    wrong = bytearray(batch(b"a", b"b"))
    wrong[-1] ^= 1

    def answer(port, request, version):
        if not isinstance(request, FetchRequest):
            return brokers.default(port, request, version)
        data = PartitionData(high_watermark=3, records=bytes(wrong) + batch(b"c", base_offset=2))
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    brokers.leaders = {0: 1}
    brokers.answer = answer
    async with open_cluster([("h", 1)], open_stream=brokers.open) as cluster:
        with pytest.raises(InvalidRecords, match="offset 0 fails its checksum"):
            await Fetcher(cluster, {T0: 0}).run()

        def read_on(batch):
            return records(batch) if batch.crc_is_right() else ()

        assert await read(Fetcher(cluster, {T0: 0}, read=read_on), {T0: 3}) == {T0: [b"c"]}


async def test_a_leader_that_moves_is_followed(brokers, autojump_clock):
    """The same offset is fetched from the new leader; the old one is asked no more."""
    brokers.leaders = {0: 1}

    def answer(port, request, version):
        if not isinstance(request, FetchRequest):
            return brokers.default(port, request, version)
        [topic] = request.topics
        offset = topic.partitions[0].fetch_offset
        if port == 1 and offset == 1:
            brokers.leaders = {0: 2}
            data = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, records=None)
        else:
            content = batch(b"from %d" % port, base_offset=offset)
            data = PartitionData(high_watermark=offset + 1, records=content)
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])

    brokers.answer = answer
    async with open_cluster([("h", 1)], open_stream=brokers.open) as cluster:
        fetcher = Fetcher(cluster, {T0: 0})
        values = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetcher.run)
            while len(values) < 3:
                values += [record.value for record in (await fetcher.next()).records]
            nursery.cancel_scope.cancel()
    assert values == [b"from 1", b"from 2", b"from 2"]


def _one_record(brokers):
    """A script: each partition has one record, and no more, and only its leader gives it."""

    def answer(port, request, version):
        if not isinstance(request, FetchRequest):
            return brokers.default(port, request, version)
        [topic] = request.topics
        rows = [
            PartitionData(
                partition_index=one.partition,
                high_watermark=1,
                records=b"" if one.fetch_offset else batch(b"from %d" % one.partition),
            )
            if brokers.leaders[one.partition] == port
            else PartitionData(
                partition_index=one.partition,
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                records=None,
            )
            for one in topic.partitions
        ]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=rows)])

    return answer


async def test_only_the_time_without_an_answer_counts(brokers, autojump_clock):
    """A second error may come hours after the first, when everything was read in between."""
    errors = [0]

    def answer(port, request, version):
        if not isinstance(request, FetchRequest):
            return brokers.default(port, request, version)
        now_s = trio.current_time() - began_s
        if now_s >= 100 * len(errors) and len(errors) < 4:
            errors.append(now_s)
            return FetchResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return _one_record(brokers)(port, request, version)

    brokers.leaders = {0: 1}
    brokers.answer = answer
    async with open_cluster([("h", 1)], open_stream=brokers.open) as cluster:
        began_s = trio.current_time()
        assert cluster.settings.give_up_s < 100
        fetcher = Fetcher(cluster, {T0: 0})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetcher.run)
            while trio.current_time() - began_s < 400:
                await _slowly(fetcher)
            nursery.cancel_scope.cancel()
    assert len(errors) == 4


async def test_a_partition_without_a_leader_holds_up_no_other_one(brokers, autojump_clock):
    """If the caller wants to know of it; the partition is placed and read when it has a leader."""
    brokers.leaders = {0: 1, 1: -1}
    brokers.answer = _one_record(brokers)
    told, placed = [], []

    async def place(partitions):
        placed.append(partitions)
        return dict.fromkeys(partitions, 0)

    async with open_cluster([("h", 1)], open_stream=brokers.open) as cluster:
        fetcher = Fetcher(cluster, {T0: 0}, leaderless=told.append, late=Late([T1], place))
        values = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetcher.run)
            values += [one.value for one in (await fetcher.next()).records]
            with trio.move_on_after(cluster.settings.give_up_s * 2):
                while True:
                    assert (await _slowly(fetcher)).partition == T0
            assert (placed, {*map(tuple, told)}) == ([], {(T1,)})
            brokers.leaders = {0: 1, 1: 2}
            while len(values) < 2:
                values += [one.value for one in (await _slowly(fetcher)).records]
            nursery.cancel_scope.cancel()
    assert values == [b"from 0", b"from 1"]
    assert (placed, told[-1]) == ([[T1]], [])


async def test_a_partition_without_a_leader_is_an_error_when_no_other_one_is_left(
    brokers, autojump_clock
):
    """A reader that has paused all others would wait for ever."""
    brokers.leaders = {0: 1, 1: -1}
    brokers.answer = _one_record(brokers)
    async with open_cluster([("h", 1)], open_stream=brokers.open) as cluster:
        fetcher = Fetcher(cluster, {T0: 0, T1: 0}, leaderless=lambda _: None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_take_once, fetcher)
            with pytest.raises(KafkaError, match="t-1 has no leader"):
                await fetcher.run()
            nursery.cancel_scope.cancel()


async def _hanging(brokers, host, port):
    """A stream to a broker, of which number 2 is behind a firewall."""
    if port == 2:
        await trio.sleep_forever()
    return await brokers.open(host, port)


@pytest.mark.parametrize(
    ("hangs", "reason", "told_by_s"),
    [(False, "h:2: connection refused", 2.5), (True, "h:2: no connection within 5 s", 6)],
    ids=["refused", "hanging"],
)
async def test_a_leader_that_cannot_be_reached_is_named_and_given_up(
    brokers, autojump_clock, hangs, reason, told_by_s
):
    """However well another leader answers; the partitions of that one are read meanwhile."""
    brokers.refused = {2}
    brokers.answer = _one_record(brokers)
    open_stream = partial(_hanging, brokers) if hangs else brokers.open
    told, read_s = [], []
    began_s = trio.current_time()
    settings = ClientSettings(tell=lambda text: told.append((text, trio.current_time() - began_s)))
    async with open_cluster([("h", 1)], settings, open_stream) as cluster:
        fetcher = Fetcher(cluster, {T0: 0, T1: 0})

        async def take():
            while True:
                assert (await _slowly(fetcher)).partition == T0
                read_s.append(trio.current_time() - began_s)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            with pytest.raises(CannotConnect, match=reason), trio.fail_after(3600):
                await fetcher.run()
            nursery.cancel_scope.cancel()
    ended_s = trio.current_time() - began_s
    assert settings.give_up_s < ended_s < settings.give_up_s + 10
    assert [text for text, _ in told] == [reason]
    assert 1 <= told[0][1] <= told_by_s
    pauses_s = [after - before for before, after in pairwise(read_s)]
    assert max(pauses_s) < 3
    assert read_s[-1] > ended_s - 3


async def test_the_time_of_a_leader_ends_when_it_no_longer_leads(brokers, autojump_clock):
    """It may lead again hours later: then it has the whole time anew."""
    brokers.refused = {2}
    brokers.answer = _one_record(brokers)
    async with open_cluster([("h", 1)], open_stream=brokers.open) as cluster:
        fetcher = Fetcher(cluster, {T0: 0, T1: 0})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetcher.run)
            for leader in (2, 1, 2, 1):
                brokers.leaders = {0: 1, 1: leader}
                read, since_s = set(), trio.current_time() + 2  # records were on their way
                with trio.move_on_after(cluster.settings.give_up_s * 0.8):
                    while True:
                        partition = (await _slowly(fetcher)).partition
                        if trio.current_time() > since_s:
                            read.add(partition)
                assert read == ({T0, T1} if leader == 1 else {T0})
            nursery.cancel_scope.cancel()


async def test_a_late_partition_whose_leader_cannot_be_reached_holds_up_no_other_one(
    brokers, autojump_clock
):
    """Its place is asked beside the others, which are read until its leader is given up."""
    brokers.leaders = {0: 1, 1: -1}
    brokers.refused = {2}
    brokers.answer = _one_record(brokers)
    told, read_s = [], []
    async with open_cluster([("h", 1)], ClientSettings(tell=told.append), brokers.open) as cluster:

        async def place(partitions):
            wanted = dict.fromkeys(partitions, LATEST)
            return all_or_raise(await list_offsets(cluster, wanted, once=True))

        fetcher = Fetcher(cluster, {T0: 0}, leaderless=lambda _: None, late=Late([T1], place))

        async def take():
            while True:
                assert (await _slowly(fetcher)).partition == T0
                read_s.append(trio.current_time())
                if trio.current_time() - began_s > 10:
                    brokers.leaders = {0: 1, 1: 2}

        began_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take)
            with pytest.raises(KafkaError, match="h:2: connection refused"), trio.fail_after(3600):
                await fetcher.run()
            nursery.cancel_scope.cancel()
        ended_s = trio.current_time()
        assert ended_s - began_s < 10 + cluster.settings.give_up_s + 5
    assert max(after - before for before, after in pairwise(read_s)) < 3
    assert read_s[-1] > ended_s - 3
    assert told == ["h:2: connection refused"]


async def _slowly(fetcher):
    """What is read next, half a second later: the script answers at once."""
    with trio.move_on_after(0.5):
        await trio.sleep_forever()
    return await fetcher.next()


async def _take_once(fetcher):
    await fetcher.next()
    fetcher.pause(T0)
    while True:
        await _slowly(fetcher)


async def test_who_does_not_ask_for_partitions_without_a_leader_gets_the_error(
    brokers, autojump_clock
):
    """A copy, for instance, is complete or fails."""
    brokers.leaders = {0: 1, 1: -1}
    brokers.answer = _one_record(brokers)
    async with open_cluster([("h", 1)], open_stream=brokers.open) as cluster:
        with pytest.raises(KafkaError, match="t-1 has no leader"):
            await Fetcher(cluster, {T0: 0, T1: 0}).run()
