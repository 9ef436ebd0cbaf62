"""A full disk: clear retriable errors, nothing acknowledged is lost, and all is well with room.

The disk is a file system of a few megabytes in memory where one may be mounted (by root), and
otherwise a quota in the door of the disk; the door's quota is tried in any case.
"""

import logging
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kwire.errors import ErrorCode
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.offset_commit import (
    OffsetCommitResponse,
)
from kwire.protocol.messages.produce import (
    ProduceResponse,
)
from kwire.testing.faulty_disk import FaultyDisk
from tests.support.asking import error_of
from tests.support.in_process import RawClient, running_server
from tests.support.records import batch
from tests.support.requests import commit_request, produce_request

SIZE_MB = 6
VALUE_BYTES = 50_000
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "log.segment.bytes": "1048576",
    "log.flush.interval.messages": "7",
}


class SmallDisk:
    """A directory with little room; ``make_room`` gives it more."""

    def __init__(
        self, path: Path, disk: FaultyDisk | None, make_room: Callable[[], object]
    ) -> None:
        self.path = path
        self.disk = disk
        self.make_room = make_room


def mount(path: Path) -> bool:
    """Mount a small file system, if this user may."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(path)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def quota(path: Path) -> SmallDisk:
    """A quota in the door of the disk."""
    disk = FaultyDisk()
    disk.room_bytes = SIZE_MB << 20
    return SmallDisk(path, disk, lambda: setattr(disk, "room_bytes", SIZE_MB << 20))


@contextmanager
def small_disk(path: Path, kind: str) -> Iterator[SmallDisk]:
    """A disk of a kind; ``mounted`` where that is allowed."""
    if kind == "quota" or not mount(path):
        yield quota(path)
        return
    try:
        remount = ["mount", "-o", f"remount,size={3 * SIZE_MB}m", str(path)]
        yield SmallDisk(path, None, lambda: subprocess.run(remount, check=True))
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


async def produce(raw: RawClient, number: int) -> tuple[int, int]:
    """The error code and the offset of an append of one large record."""
    request = produce_request("t", batch((b"%d" % number, bytes(VALUE_BYTES))))
    response = await raw.request(request, 9, ProduceResponse)
    answer = response.responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


async def keys(raw: RawClient) -> list[tuple[int, bytes | None]]:
    """Offset and key of every record of t-0, as a consumer reads them."""
    return [(one.offset, one.key) for one in await raw.records("t")]


async def fill(raw: RawClient, acknowledged: list[tuple[int, bytes | None]]) -> None:
    """Append until the disk is full, and then some more that is refused."""
    number = len(acknowledged)
    refused = 0
    while refused < 5:
        code, offset = await produce(raw, number)
        if code:
            assert code == ErrorCode.KAFKA_STORAGE_ERROR
            refused += 1
        else:
            acknowledged.append((offset, b"%d" % number))
            number += 1
        assert number < 1000


async def prepare(raw: RawClient) -> None:
    """A topic, and a group's coordinator."""
    await raw.topic("t")
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    await raw.request(request, 4, FindCoordinatorResponse)
    await raw.commit("g", "t", 7)


@pytest.mark.parametrize("kind", ["quota", "mounted"])
async def test_a_full_disk_is_waited_out(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Producers get KAFKA_STORAGE_ERROR, consumers everything; groups and admin clients are told
    something they may retry; it is said once; with room all goes on, and after a restart every
    acknowledged record is there once, in order."""
    acknowledged: list[tuple[int, bytes | None]] = []
    with small_disk(tmp_path, kind) as small:
        async with running_server(tmp_path, SETTINGS, disk=small.disk) as running:
            raw = await running.connect()
            await prepare(raw)
            await fill(raw, acknowledged)
            assert len(acknowledged) > 50
            assert await keys(raw) == acknowledged
            commit = commit_request("g", "t", 7, metadata="x" * 4000)
            found = await raw.request(commit, 9, OffsetCommitResponse)
            code = found.topics[0].partitions[0].error_code
            assert code in (0, ErrorCode.NOT_COORDINATOR)
            assert await error_of(raw.topic("u")) in (0, ErrorCode.KAFKA_STORAGE_ERROR)
            assert not running.broker.log_manager.failures
            said = [r for r in caplog.records if r.name == "kwire.log.directory_health"]
            assert [r.levelno for r in said] == [logging.ERROR]
            assert "No space left on device" in said[0].getMessage()
            running.broker.log_manager.look_for_room()
            small.make_room()
            code, offset = await produce(raw, len(acknowledged))
            assert (code, offset) == (0, len(acknowledged))
            acknowledged.append((offset, b"%d" % offset))
            await raw.topic("v")
            await raw.commit("g", "t", 7, metadata="x" * 4000)
            assert await keys(raw) == acknowledged
            running.broker.log_manager.look_for_room()
            said = [r for r in caplog.records if r.name == "kwire.log.directory_health"]
            assert [r.levelno for r in said] == [logging.ERROR, logging.WARNING]
            await raw.aclose()
        async with running_server(tmp_path, SETTINGS, disk=small.disk) as running:
            raw = await running.connect()
            assert await keys(raw) == acknowledged
            await raw.aclose()
