"""Sending slices of files: whole and in order, whatever is in memory and however it is read."""

import os
import random
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.cold_reads import ColdReads
from kwire.budget.thread_pool import ThreadPool
from kwire.connection import outbox
from kwire.connection.outbox import Outbox, SliceEnded
from kwire.dispatch.encoding import encode_response
from kwire.dispatch.routes import route
from kwire.protocol.codec import decode
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kwire.record.batch import Buffer
from tests.support.page_cache import PageCache

SIZE_BYTES = 3 * 1024 * 1024 + 77


@pytest.fixture
def content() -> bytes:
    """What the file holds."""
    return random.Random(4).randbytes(SIZE_BYTES)


@pytest.fixture
def file(tmp_path: Path, content: bytes) -> Iterator[FileSlice]:
    """All of an open file."""
    path = tmp_path / "file"
    path.write_bytes(content)
    with path.open("rb") as opened:
        yield FileSlice(opened.fileno(), 0, SIZE_BYTES, opened)


def respond(sending: Outbox, part: FileSlice) -> None:
    """Have a response with a slice sent."""
    data = PartitionData(partition_index=0, high_watermark=0, records=part)
    topic = FetchableTopicResponse(topic="t", partitions=[data])
    encode_response(route(1, 12), FetchResponse(responses=[topic]), 7, *sending.buffers)


async def received(sending: Outbox, theirs: socket.socket, count: int) -> list[bytes]:
    """The records of so many responses, for a client that reads now and then."""
    got = bytearray()
    found: list[bytes] = []

    async def receive() -> None:
        while len(found) < count:
            await trio.lowlevel.wait_readable(theirs)
            got.extend(theirs.recv(300_000))
            while len(got) >= 4 and len(got) >= 4 + int.from_bytes(got[:4]):
                end = 4 + int.from_bytes(got[:4])
                # 5 bytes of header: the correlation id and its tags.
                response = decode(FetchResponse, 12, memoryview(bytes(got[9:end])))
                found.append(bytes(response.responses[0].partitions[0].records))
                del got[:end]

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(receive)
            await sending.send()
    assert not got
    return found


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection with small buffers."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
    return ours, theirs


@pytest.mark.parametrize("seed", range(8))
async def test_slices_come_whole_whatever_is_in_memory(
    monkeypatch: pytest.MonkeyPatch, file: FileSlice, content: bytes, seed: int
) -> None:
    """Pages come and go between a look and the next; every byte is sent once."""
    chance = random.Random(seed)
    cache = PageCache(monkeypatch)
    monkeypatch.setattr(cache, "is_warm", lambda file, page: chance.random() < 0.93)
    ours, theirs = pair()
    with ours, theirs:
        sending = Outbox(ours, ColdReads(ThreadPool(1)))
        wanted = []
        for _ in range(6):
            start = chance.randrange(SIZE_BYTES - 1)
            size_bytes = chance.randint(1, SIZE_BYTES - start)
            respond(sending, FileSlice(file.fd, start, size_bytes, file.owner))
            wanted.append(content[start : start + size_bytes])
        sending.send_nowait()
        assert await received(sending, theirs, len(wanted)) == wanted
        assert not sending


async def test_the_last_part_is_sent_at_once(file: FileSlice) -> None:
    """What comes before a slice waits in the system for it; what comes last waits for nothing."""
    flags = []

    class Counted(socket.socket):
        def send(self, data: Buffer, flag: int = 0) -> int:
            flags.append(flag)
            return super().send(data, flag)

    ours, theirs = pair()
    with theirs, Counted(fileno=ours.detach()) as counted:
        sending = Outbox(counted, ColdReads(ThreadPool(1)))
        respond(sending, FileSlice(file.fd, 0, outbox.SMALL_BYTES + 1, file.owner))
        assert sending.send_nowait()
        assert flags == [socket.MSG_MORE, 0]
        await received(sending, theirs, 1)


async def test_small_slices_are_sent_in_one_piece(file: FileSlice, content: bytes) -> None:
    """With what is before, between and behind them, by one call."""
    calls = []

    class Counted(socket.socket):
        def send(self, data: Buffer, flags: int = 0) -> int:
            calls.append(len(memoryview(data)))
            return super().send(data, flags)

    ours, theirs = pair()
    with theirs, Counted(fileno=ours.detach()) as counted:
        sending = Outbox(counted, ColdReads(ThreadPool(1)))
        wanted = [content[:100], content[5000:9000], content[70_000 : 70_000 + 20_000]]
        for start, size_bytes in ((0, 100), (5000, 4000), (70_000, 20_000)):
            respond(sending, FileSlice(file.fd, start, size_bytes, file.owner))
        assert sending.send_nowait()
        assert not sending
        assert len(calls) == 1
        assert await received(sending, theirs, len(wanted)) == wanted


@pytest.mark.parametrize("first", [100, outbox.SMALL_BYTES])
async def test_small_slices_that_are_not_in_memory(
    monkeypatch: pytest.MonkeyPatch, file: FileSlice, content: bytes, first: int
) -> None:
    """They are waited for as large ones are, and come whole."""
    PageCache(monkeypatch)
    ours, theirs = pair()
    with ours, theirs:
        sending = Outbox(ours, ColdReads(ThreadPool(1)))
        for start in (0, 5000):
            respond(sending, FileSlice(file.fd, start, first, file.owner))
        assert not sending.send_nowait()
        assert sending.waits_for_disk
        wanted = [content[:first], content[5000 : 5000 + first]]
        assert await received(sending, theirs, 2) == wanted


@pytest.mark.parametrize("promised", [10, outbox.SMALL_BYTES + 1])
async def test_a_file_that_ended_before_its_slice(file: FileSlice, promised: int) -> None:
    """The connection can't go on."""
    ours, theirs = pair()
    with ours, theirs:
        sending = Outbox(ours, ColdReads(ThreadPool(1)))
        respond(sending, FileSlice(file.fd, SIZE_BYTES - 1, promised, file.owner))
        with pytest.raises(SliceEnded):
            sending.send_nowait()


async def test_a_file_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, file: FileSlice, tmp_path: Path
) -> None:
    """A disk that fails in the thread ends the connection too."""
    PageCache(monkeypatch)
    ours, theirs = pair()
    directory = os.open(tmp_path, os.O_RDONLY)
    with ours, theirs:
        sending = Outbox(ours, ColdReads(ThreadPool(1)))
        respond(sending, FileSlice(directory, 0, 10, None))
        with pytest.raises(SliceEnded):
            await sending.send()
    os.close(directory)


@pytest.mark.parametrize("seed", range(6))
async def test_small_slices_come_as_they_would_one_by_one(
    monkeypatch: pytest.MonkeyPatch, file: FileSlice, seed: int
) -> None:
    """Read into the bytes around them or sent for themselves: it is the same to the client."""
    streams = []
    for is_cold in (False, True):
        chance = random.Random(seed)
        ours, theirs = pair()
        with ours, theirs:
            sending = Outbox(ours, ColdReads(ThreadPool(1)))
            for _ in range(chance.randint(1, 9)):
                if chance.random() < 0.3:
                    sending.append_plain(chance.randbytes(chance.randint(1, 200)))
                size_bytes = chance.choice([1, 70, 3000, 9000])
                start = chance.randrange(SIZE_BYTES - size_bytes)
                respond(sending, FileSlice(file.fd, start, size_bytes, file.owner))
            if is_cold:
                PageCache(monkeypatch)
            assert sending.send_nowait() is not is_cold
            await sending.send()
            streams.append(theirs.recv(1 << 20))
    assert streams[0] == streams[1]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, file: FileSlice) -> list[int]:
    """Where it was looked whether the file is in memory, which it always is."""
    cache = PageCache(monkeypatch)
    cache.keep(file.fd, 0, SIZE_BYTES)
    return cache.looks


async def test_what_was_in_memory_may_not_be_after_a_long_wait(
    looks: list[int], file: FileSlice
) -> None:
    """A window of a slice that was looked at is looked at again when the client has slept."""
    ours, theirs = pair()
    with ours, theirs:
        sending = Outbox(ours, ColdReads(ThreadPool(1)))
        respond(sending, file)
        assert not sending.send_nowait()
        window = list(looks)
        assert window
        drain(theirs)
        assert not sending.send_on(outbox.LONG_WAIT_S)
        assert looks == window
        drain(theirs)
        assert not sending.send_on(outbox.LONG_WAIT_S + 0.001)
        assert len(looks) > len(window)


async def test_what_a_task_sends_is_looked_at_again_after_a_long_wait(
    looks: list[int], file: FileSlice, mock_clock: trio.testing.MockClock
) -> None:
    """As above, where a task waits for the client."""
    ours, theirs = pair()
    with ours, theirs:
        sending = Outbox(ours, ColdReads(ThreadPool(1)))
        respond(sending, file)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sending.send)
            await trio.testing.wait_all_tasks_blocked()
            drain(theirs)
            await trio.testing.wait_all_tasks_blocked()
            window = list(looks)
            assert window
            mock_clock.jump(outbox.LONG_WAIT_S + 0.001)
            drain(theirs)
            await trio.testing.wait_all_tasks_blocked()
            assert len(looks) > len(window)
            nursery.cancel_scope.cancel()


def drain(theirs: socket.socket) -> None:
    """Read all that has come."""
    with suppress(BlockingIOError):
        while theirs.recv(1 << 20):
            pass


async def test_large_parts_are_sent_without_another_copy() -> None:
    """In order with the small responses before and behind them."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        sending = Outbox(ours, ColdReads(ThreadPool(1)))
        large = [bytes([n]) * (outbox.LARGE_PART_BYTES + n) for n in range(5)]
        sending.append_plain(b"before")
        users = [sys.getrefcount(one) for one in large]
        sending.append_plain([b"start", *large, b"end"])
        assert sending.is_large
        assert all(sys.getrefcount(one) > before for one, before in zip(large, users, strict=True))
        sending.append_plain(b"behind")
        expected = b"".join([b"before", b"start", *large, b"end", b"behind"])
        got = b""
        while len(got) < len(expected):
            sending.send_nowait()
            with suppress(BlockingIOError):
                got += theirs.recv(1 << 20)
        assert got == expected
        assert not sending
