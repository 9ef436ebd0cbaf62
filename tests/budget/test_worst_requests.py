"""No API costs more than its budget, whatever is asked for.

Counted are lines of Python that the tasks of connections run, by pass of the event loop. These
lines are its time: a slice ends after so many of them. Five times as many elements may cost five
times as many lines in all, but no more lines in any one pass: others wait no longer, however large
a request is.
"""

import gc
import sys
import tracemalloc

import pytest
import trio
import trio.testing

import kwire.connection.mapped  # noqa: F401 - the first large request would import it
from bench.worst_requests import (
    ALL_APIS,
    CONSTANT,
    GROUPS,
    KEYS,
    WORST,
    constant,
    offset_commit,
    version_of,
)
from bench.worst_topic_requests import IN_ONE, OF_TOPICS, PARTITIONS
from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.errors import ErrorCode
from kwire.metadata.acls import AclsDeleted, in_changes
from kwire.metadata.changes import ConfigChanged, TopicDeleted, apply
from kwire.metadata.controller import NewTopic, create_topic
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.sync_group import SyncGroupRequest
from tests.performance.answers import error_codes
from tests.performance.desk import Message, desk, sent
from tests.support.asking import TRANSACTION_KEY

FEW, MANY = 200, 1000
SOME, QUARTER = 500, 125
EXISTING = 300
"""Of so many topics each exists that a request of ``OF_TOPICS`` names."""

ACLS = 100
"""So many are left when they are looked at by each filter of DeleteAcls."""

MOST_MORE = (MANY - FEW) * 1.2
"""Lines in a pass of the larger request: its first slice has more elements to take. A loop of two
lines for each element, its head and its body, would be more."""
MOST_LINES = 10_000
"""In one pass of the loop, whose slices are a quarter of what they are otherwise."""

MOST_HELD = 200
"""How many bytes of memory a byte of a request may need: an element of 4 bytes becomes objects."""

CASES = [(name, version_of(name), make) for name, make in WORST.items()]
CASES += [(name, version_of(api), make) for name, (api, make) in IN_ONE.items()]

AUTHORIZED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
DENIED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}
WHO_MAY = (
    pytest.param({}, id="everybody may"),
    pytest.param(AUTHORIZED, id="a super user"),
    pytest.param(DENIED, id="denied"),
)

AT_ONCE = {"JoinGroup", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat"}
"""A step of a group is done as a whole. ``kwire.group.member.max.bytes`` bounds it."""


class PassMeter(trio.abc.Instrument):
    """Counts lines of Python by pass of the event loop, of the tasks of connections.

    ``clock`` is the time of the event loop, which these lines take.
    """

    def __init__(self, clock):
        self.total = self.most = 0
        self._clock = clock
        self._before = clock.lines

    def __enter__(self):
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(self, *error):
        trio.lowlevel.remove_instrument(self)

    def before_io_wait(self, _timeout):
        """A pass is over."""
        now = self._clock.lines - self._before - self.total
        self.most = max(self.most, now)
        self.total += now

    def before_task_step(self, task):
        """Begin to count."""
        if ".connection." in task.name:
            sys.settrace(self._clock.trace)

    def after_task_step(self, _task):
        """Cease to count."""
        sys.settrace(None)


async def prepare(clients):
    """The state that makes requests cost most; the id of the one member of ``joins-few``."""
    await clients.topic("t", PARTITIONS)
    await clients.find_coordinator("big")
    await clients.find_coordinator("x", TRANSACTION_KEY)
    await clients.ask(Message(offset_commit(PARTITIONS), 8))
    for n in range(GROUPS):
        request = offset_commit(1)
        request.group_id = f"group-{n}"
        await clients.ask(Message(request, 8))
    kind, name = ConfigResourceType.GROUP, "consumer.session.timeout.ms"
    changes = [ConfigChanged(kind, f"group-{n}", name, "50000") for n in range(GROUPS)]
    await clients.broker.commit(lambda image: changes)
    join = JoinGroupRequest(
        group_id="joins-few",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )
    return (await clients.ask(Message(join, 3))).member_id


async def create_topics(clients, count):
    """The topics that requests of ``OF_TOPICS`` name, as they were before such a request."""

    def decide(image):
        names = [f"name-{n}" for n in range(count)]
        old = [image.topics_by_name[name] for name in names if name in image.topics_by_name]
        changes = [TopicDeleted(one.topic_id) for one in old]
        image = apply(image, changes, image.revision)
        for name in names:
            changes += create_topic(image, NewTopic(name, 1, 1), random)
        return changes

    random = clients.broker.random
    await clients.broker.commit(decide)


async def keep_acls(clients, count):
    """Delete all ACLs of CreateAcls but so many: each filter of DeleteAcls looks at every one."""
    await clients.broker.commit(lambda image: in_changes(AclsDeleted, list(image.acls)[count:]))


async def play(clients, request, version):
    """Send a request, and wait until it is answered."""
    await clients.send(0, sent(Message(request, version)).frames)
    answer = await clients.receive(0)
    await trio.testing.wait_all_tasks_blocked()
    return answer


def made(make, count, member_id):
    """A worst request; SyncGroup's is of the one member of ``joins-few``."""
    request = make(count)
    if isinstance(request, SyncGroupRequest):
        request.member_id = member_id
    return request


def worst(name, count, member_id):
    """The worst request of an API."""
    return made(WORST[name], count, member_id)


def test_every_api_has_a_worst_request():
    """Whoever adds an API says which of its requests costs most."""
    assert {KEYS[name] for name in WORST} | CONSTANT.keys() == ALL_APIS.keys()


@pytest.mark.parametrize("settings", WHO_MAY)
async def test_no_request_costs_more_in_one_pass_the_more_it_asks_for(
    tmp_path, line_clock, settings
):
    """Lines in one pass of the loop are bounded, and lines in all grow in proportion."""
    wrong = []
    async with desk(tmp_path, settings) as clients:
        member_id = "m" if settings is DENIED else await prepare(clients)
        for name, version, make in CASES:
            meters = []
            if name == "DeleteAcls":
                await keep_acls(clients, ACLS)
            await play(clients, made(make, EXISTING + 3, member_id), version)  # what is imported
            for count in (FEW, MANY):
                if name in OF_TOPICS and settings is not DENIED:
                    await create_topics(clients, min(count, EXISTING))
                request = made(make, count, member_id)
                with PassMeter(line_clock) as meter:
                    await play(clients, request, version)
                meters.append(meter)
            few, many = meters
            most = min(few.most + MOST_MORE, MOST_LINES)
            if name not in AT_ONCE and many.most > most:
                wrong.append(f"{name}: {few.most}, {many.most} lines in one pass")
            if many.total > 1.15 * MANY / FEW * few.total:
                wrong.append(f"{name}: {few.total}, {many.total} lines in all")
    assert not wrong, wrong


async def test_a_request_without_arrays_costs_little(tmp_path, line_clock):
    """There is nothing in it that could grow."""
    async with desk(tmp_path) as clients:
        await prepare(clients)
        for key in CONSTANT:
            name = ALL_APIS[key].name
            await play(clients, constant(key), version_of(name))
            with PassMeter(line_clock) as meter:
                await play(clients, constant(key), version_of(name))
            assert meter.total < MOST_LINES / 3, name


async def test_a_request_is_held_in_a_small_multiple_of_its_bytes(tmp_path):
    """What is allocated at the same time for a request and its answer is bounded by its size."""
    wrong = []
    async with desk(tmp_path) as clients:
        member_id = await prepare(clients)
        for name in WORST:
            await play(clients, worst(name, 3, member_id), version_of(name))
            message = sent(Message(worst(name, SOME, member_id), version_of(name)))
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            await clients.send(0, message.frames)
            answer = await clients.receive(0)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            held = peak - before - 3 * len(answer)
            if held > 300_000 + MOST_HELD * len(message.frames):
                wrong.append(f"{name}: {held} bytes for {len(message.frames)}")
    assert not wrong


async def test_a_request_leaves_nothing_for_the_collector_of_garbage(tmp_path, look_clock):
    """Memory in cycles stays until the collector runs, which then holds up the event loop."""
    wrong = []
    async with desk(tmp_path) as clients:
        member_id = await prepare(clients)
        for name in WORST:
            await play(clients, worst(name, 3, member_id), version_of(name))
            request = worst(name, QUARTER, member_id)
            gc.disable()
            try:
                gc.collect(0)  # what is left young until the next look was made meanwhile
                await play(clients, request, version_of(name))
                found = gc.collect(0)
            finally:
                gc.enable()
            if found > 2 * QUARTER:
                wrong.append(f"{name}: {found} objects")
    assert not wrong


async def test_few_bytes_cannot_ask_for_an_answer_of_any_size(tmp_path, line_clock):
    """A group that is named thousands of times would be answered as often: the connection ends."""
    settings = {"kwire.response.max.bytes": "1048576"}
    async with desk(tmp_path, settings) as clients:
        await prepare(clients)
        small = WORST["OffsetFetch"](20)
        assert len(await play(clients, small, 8)) < 1_048_576
        with PassMeter(line_clock) as meter:
            await clients.send(0, sent(Message(WORST["OffsetFetch"](20_000), 8)).frames)
            assert await clients.is_closed(0)
        assert meter.most < 4 * MOST_LINES


@pytest.mark.parametrize("name", sorted(AT_ONCE))
async def test_a_member_says_only_so_much_of_itself(tmp_path, name):
    """What a group would have to keep, and to look at in one step, has a limit."""
    settings = {"kwire.group.member.max.bytes": "65536"}
    async with desk(tmp_path, settings) as clients:
        await prepare(clients)
        version = version_of(name)
        for count, wanted in ((500, {ErrorCode.NONE}), (5000, {ErrorCode.INVALID_REQUEST})):
            message = Message(WORST[name](count), version)
            await clients.send(0, sent(message).frames)
            assert set(error_codes(await clients.answer(message))) == wanted
