"""What a large request has made is freed in slices of the event loop.

Python frees all objects of a list at once, 5 to 10 ms for 60,000. Counted is how many blocks of
memory a step of a task gives back.
"""

import gc
import sys

import pytest
import trio
import trio.testing

from bench.worst_requests import WORST, version_of
from kwire.errors import ErrorCode
from kwire.protocol.codec import decode
from kwire.protocol.frame import encode_request
from kwire.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.security.authorizer import ANSWERS_PER_CLIENT
from tests.budget.test_worst_requests import (
    AUTHORIZED,
    DENIED,
    MOST_LINES,
    WHO_MAY,
    PassMeter,
    play,
    prepare,
    worst,
)
from tests.performance.desk import Message, desk, sent

ELEMENTS = 1500

MANY = 6000
"""More elements than one pass of the event loop may run lines of Python here."""

MOST_BLOCKS = 1250
"""A large request that is freed at once gives back more; a slice gives back 1,055 at most."""


def _group_configs(count):
    configs = [AlterableConfig(name="consumer.session.timeout.ms", value="50000")]
    resources = [
        AlterConfigsResource(resource_type=32, resource_name=f"g-{n}", configs=configs)
        for n in range(count)
    ]
    return IncrementalAlterConfigsRequest(resources=resources)


MANY_CHANGES = {
    "AlterClientQuotas": WORST["AlterClientQuotas"],
    "CreateAcls": WORST["CreateAcls"],
    "CreateTopics": WORST["CreateTopics"],
    "IncrementalAlterConfigs": _group_configs,
}
"""Requests whose every element is a change of the metadata."""

BOUNDED = {"DeleteAcls": "at most 1,000 filters are looked at"}


class FreeMeter(trio.abc.Instrument):
    """Counts the blocks of memory that one step of a task frees, net.

    It counts from the end of the step before: a look at the memory takes some 20 microseconds.
    """

    def __init__(self):
        self.most = self._before = 0

    def __enter__(self):
        gc.disable()  # a collection in a step would count as what the step frees
        self._before = sys.getallocatedblocks()
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(self, *error):
        trio.lowlevel.remove_instrument(self)
        gc.enable()

    def after_task_step(self, _task):
        """Count what is there less than after the step before."""
        now = sys.getallocatedblocks()
        self.most = max(self.most, self._before - now)
        self._before = now


@pytest.fixture
def taken_apart(monkeypatch):
    """Smaller requests are taken apart; fewer answers are forgotten at once."""
    monkeypatch.setattr("kwire.protocol.taking_apart.PIECE", 32)
    monkeypatch.setattr("kwire.handlers.push_telemetry.POINTS_AT_ONCE", 4)
    monkeypatch.setattr("kwire.security.authorizer.ANSWERS_PER_CLIENT", ANSWERS_PER_CLIENT // 8)


@pytest.fixture
def in_slices(taken_apart, look_clock):
    """Each slice has few pieces."""


@pytest.mark.parametrize("settings", WHO_MAY)
async def test_no_step_frees_a_large_request(tmp_path, in_slices, settings):
    """Each handler names what it has made, so that this is taken apart in slices."""
    wrong = []
    async with desk(tmp_path, settings) as clients:
        member_id = "m" if settings is DENIED else await prepare(clients)
        for name in sorted(WORST.keys() - BOUNDED.keys()):
            frames = sent(Message(worst(name, ELEMENTS, member_id), version_of(name))).frames
            with FreeMeter() as meter:
                await clients.send(0, frames)
                await clients.receive(0)
                await trio.testing.wait_all_tasks_blocked()
            if meter.most > MOST_BLOCKS:
                wrong.append(f"{name}: {meter.most} blocks in one step")
    assert not wrong, wrong


PARTITIONS = 3000
FETCH_VERSION = 12


def _fetch(count, session_id=0, epoch=0):
    wanted = [FetchPartition(partition=number) for number in range(count)]
    topics = [FetchTopic(topic="t", partitions=wanted)] if count else []
    return FetchRequest(
        max_wait_ms=0, session_id=session_id, session_epoch=epoch, topics=topics, max_bytes=1
    )


async def _freed_by(clients, request):
    """The answer to a fetch, and how many blocks one step frees at most meanwhile."""
    with FreeMeter() as meter:
        await clients.send(0, sent(Message(request, FETCH_VERSION)).frames)
        response = bytes(await clients.receive(0))
        answer = decode(FetchResponse, FETCH_VERSION, response[9:])  # behind its size and header
        await trio.testing.wait_all_tasks_blocked()
    return answer, meter.most


async def test_a_fetch_session_is_freed_in_slices(tmp_path, in_slices):
    """Also what was read for its answers, and when a request without partitions ends it."""
    async with desk(tmp_path) as clients:
        begun, of_the_first = await _freed_by(clients, _fetch(PARTITIONS))
        session_id = begun.session_id
        assert session_id
        _, of_the_next = await _freed_by(clients, _fetch(0, session_id, 1))
        _, of_the_end = await _freed_by(clients, _fetch(0, session_id, -1))
        ended, _ = await _freed_by(clients, _fetch(0, session_id, 2))
    assert ended.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert max(of_the_first, of_the_next, of_the_end) < MOST_BLOCKS


async def _most_when_refused(tmp_path, monkeypatch, meter_of):
    """What a meter counts at most while each of the requests is refused, by its name."""
    most = {}
    async with desk(tmp_path, AUTHORIZED) as clients:
        await prepare(clients)
        monkeypatch.setattr("kwire.handlers.lib.metadata_commits.MOST_CHANGES", 100)
        monkeypatch.setattr("kwire.metadata.controller.MAX_RECORDS_PER_REQUEST", 100)
        for name, request in MANY_CHANGES.items():
            await play(clients, request(MANY), version_of(name))  # what is imported
            frames = sent(Message(request(MANY), version_of(name))).frames
            with meter_of() as meter:
                await clients.send(0, frames)
                await clients.receive(0)
                await trio.testing.wait_all_tasks_blocked()
            most[name] = meter.most
    return most


async def test_a_request_of_too_many_changes_is_refused_in_slices(
    tmp_path, monkeypatch, line_clock
):
    """Each element has its error."""
    lines = await _most_when_refused(tmp_path, monkeypatch, lambda: PassMeter(line_clock))
    assert max(lines.values()) <= MOST_LINES / 2, lines


async def test_a_decision_that_is_given_up_is_freed_in_slices(tmp_path, monkeypatch, in_slices):
    """Its changes may be as many as the elements of the request."""
    blocks = await _most_when_refused(tmp_path, monkeypatch, FreeMeter)
    assert max(blocks.values()) <= MOST_BLOCKS, blocks


async def test_what_a_request_has_made_is_freed_in_slices_if_it_fails(tmp_path, in_slices):
    """A client may ask for too much again and again."""
    async with desk(tmp_path, {"kwire.response.max.bytes": "1048576"}) as clients:
        request = WORST["DescribeConfigs"](ELEMENTS)
        with FreeMeter() as meter:
            await clients.send(0, sent(Message(request, version_of("DescribeConfigs"))).frames)
            assert await clients.is_closed(0)
            await trio.testing.wait_all_tasks_blocked()
    assert meter.most < ELEMENTS / 2


@pytest.mark.parametrize("name_bytes", [b"\xff\xfe", b"\x00\x01\xff"])
async def test_what_a_malformed_request_has_made_is_freed_in_slices(
    tmp_path, in_slices, name_bytes
):
    """Its last element may be the one that is wrong: to free 250,000 at once takes 40 ms."""
    topics = [MetadataRequestTopic(name=f"t{n}") for n in range(ELEMENTS)]
    data = encode_request(MetadataRequest(topics=topics), 4, 1)
    at = data.rindex(b"\x00\x05t%d" % (ELEMENTS - 1))
    data[at : at + len(name_bytes)] = name_bytes
    async with desk(tmp_path) as clients:
        with FreeMeter() as meter:
            await clients.send(0, data)
            assert await clients.is_closed(0)
            await trio.testing.wait_all_tasks_blocked()
    assert meter.most < MOST_BLOCKS
