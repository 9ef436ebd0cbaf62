"""The logs of a large commit are made in slices, and later commits are followed in between."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kwire.broker import commits
from kwire.broker.broker import Broker
from kwire.broker.commits import Commits
from kwire.broker.proposals import NOBODY, Asker
from kwire.broker.served_partitions import LOGS_PER_TURN, LogJob
from kwire.budget.threads import Kind
from kwire.errors import KafkaError
from kwire.metadata.changes import (
    Change,
    ConfigChanged,
    PartitionsChanged,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from kwire.metadata.controller import NewTopic, create_topic
from kwire.metadata.image import ConfigResourceType, MetadataImage, PartitionImage, TopicImage
from kwire.testing.waiting import until
from tests.broker.queueing import Client, ContestedStore
from tests.support.in_process import RunningServer, running_server

SLICES = 5
MANY = SLICES * LOGS_PER_TURN


class Gate:
    """Stops the threads that make logs, each before its logs, or after them with ``after``."""

    def __init__(self, served: Any, *, after: bool = False) -> None:
        self.opened: list[int] = []
        self._real = served._open_new
        self._after = after
        self._permits = threading.Semaphore(0)
        served._open_new = self._stop

    def _stop(self, some: Sequence[Any]) -> Any:
        if not self._after:
            self._permits.acquire()
        opened = self._real(some)
        self.opened.append(len(some))
        if self._after:
            self._permits.acquire()
        return opened

    def let_pass(self, slices: int = 1000) -> None:
        """Let so many slices pass."""
        self._permits.release(slices)


@pytest.fixture
def gates() -> Iterator[list[Gate]]:
    """The gates of a test; they are open in the end, so that a test that fails ends too."""
    made: list[Gate] = []
    yield made
    for gate in made:
        gate.let_pass()


async def create(broker: Broker, name: str, partitions: int) -> None:
    """Create a topic."""
    wanted = NewTopic(name, partitions, 1)
    await broker.commit(lambda image: create_topic(image, wanted, broker.random))


async def delete(broker: Broker, name: str) -> None:
    """Delete it."""
    await broker.commit(lambda image: [TopicDeleted(image.topics_by_name[name].topic_id)])


def directories(tmp_path: Path, name: str) -> list[str]:
    """The directories whose names begin with this one."""
    return sorted(path.name for path in tmp_path.glob(f"{name}*"))


async def begun(server: RunningServer, nursery: trio.Nursery, name: str = "large") -> None:
    """A topic with many partitions is committed, and its logs are being made."""
    nursery.start_soon(create, server.broker, name, MANY)
    await until(lambda: bool(server.broker._served._jobs))


async def test_a_small_topic_does_not_wait_for_a_large_one(
    tmp_path: Path, gates: list[Gate]
) -> None:
    """It waits for the slice that is being made, and for no other; the large one is made, too."""
    async with running_server(tmp_path) as server, trio.open_nursery() as nursery:
        gate = Gate(server.broker._served)
        gates.append(gate)
        await begun(server, nursery)
        done = trio.Event()

        async def small() -> None:
            await create(server.broker, "small", 1)
            done.set()

        nursery.start_soon(small)
        await until(lambda: "small" in server.broker.image.topics_by_name)
        gate.let_pass(2)
        await done.wait()
        assert server.broker.partition("small", 0)
        assert gate.opened == [LOGS_PER_TURN, 1]
        with pytest.raises(KafkaError):
            server.broker.partition("large", MANY - 1)
        gate.let_pass()
    assert sum(gate.opened) == MANY + 1


async def test_a_large_topic_is_there_when_its_commit_returns(tmp_path: Path) -> None:
    """And gone, with all of its logs, when its deletion returns."""
    async with running_server(tmp_path) as server:
        broker = server.broker
        await create(broker, "large", MANY)
        assert all(broker.partition("large", index) for index in range(MANY))
        assert len(directories(tmp_path, "large")) == MANY
        await delete(broker, "large")
        assert broker.partitions() == []
        assert all(name.endswith("-delete") for name in directories(tmp_path, "large"))
        assert broker.log_manager.logs == broker._served._doomed == {}


async def test_the_smallest_of_several_large_ones_comes_first(
    tmp_path: Path, gates: list[Gate]
) -> None:
    """So who makes 10 partitions doesn't wait for 100; every eighth slice is the oldest one's."""
    async with running_server(tmp_path) as server, trio.open_nursery() as nursery:
        broker, ended = server.broker, []
        gate = Gate(broker._served)
        gates.append(gate)
        await begun(server, nursery)

        async def smaller() -> None:
            await create(broker, "smaller", LOGS_PER_TURN + 2)
            ended.append(len(gate.opened))

        nursery.start_soon(smaller)
        await until(lambda: len(broker._served._jobs) == 2)
        gate.let_pass()
        await until(lambda: bool(ended))
        assert gate.opened[:3] == [LOGS_PER_TURN, LOGS_PER_TURN, 2]


async def test_what_is_deleted_meanwhile_is_not_made(tmp_path: Path, gates: list[Gate]) -> None:
    """Neither the logs of later slices, nor those that a thread was just making."""
    async with running_server(tmp_path) as server, trio.open_nursery() as nursery:
        broker = server.broker
        gate = Gate(broker._served, after=True)
        gates.append(gate)
        await begun(server, nursery)
        await until(lambda: len(gate.opened) == 1)
        nursery.start_soon(delete, broker, "large")
        await until(lambda: "large" not in broker.image.topics_by_name)
        gate.let_pass()
    assert all(name.endswith("-delete") for name in directories(tmp_path, "large"))
    assert len(directories(tmp_path, "large")) == LOGS_PER_TURN
    assert broker.log_manager.logs == {}


async def test_a_name_can_be_used_before_its_old_logs_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old log is deleted before the new one is made; it isn't put aside as a stray one."""
    async with running_server(tmp_path) as server:
        broker, served = server.broker, server.broker._served
        await create(broker, "t", MANY)
        old = broker.partition("t", MANY - 1)
        async with trio.open_nursery() as nursery, served._changing:
            nursery.start_soon(delete, broker, "t")
            await until(lambda: bool(served._jobs))
            assert not [one for one in broker.partitions() if one.topic == "t"]
            nursery.start_soon(create, broker, "t", 1)
            await until(lambda: "t" in broker.image.topics_by_name)
            served._jobs[0].doomed.insert(0, served._jobs[0].doomed.pop())  # t-0 comes last
            served._changing.release()
            await trio.testing.wait_all_tasks_blocked()
            await until(lambda: served.partition_if_served("t", 0) is not None)
            await served._changing.acquire()
        assert broker.partition("t", 0).topic_id != old.topic_id
        assert list(broker.log_manager.logs) == [("t", 0)]
    names = directories(tmp_path, "t-")
    assert [name for name in names if not name.endswith("-delete")] == ["t-0"]
    assert len(names) == MANY + 1


async def test_settings_that_change_meanwhile_count(tmp_path: Path, gates: list[Gate]) -> None:
    """Also for a log that a thread was just making with the settings of before."""
    async with running_server(tmp_path) as server, trio.open_nursery() as nursery:
        broker = server.broker
        gate = Gate(broker._served, after=True)
        gates.append(gate)
        await begun(server, nursery)
        await until(lambda: len(gate.opened) == 1)
        kind = ConfigResourceType.TOPIC
        await broker.commit(lambda _: [ConfigChanged(kind, "large", "retention.bytes", "77")])
        gate.let_pass()
    assert {one.log.config.retention_bytes for one in broker.partitions()} == {77}
    assert len(broker.partitions()) == MANY


async def test_a_replica_that_is_given_away_meanwhile_is_not_served(
    tmp_path: Path, gates: list[Gate]
) -> None:
    """Its log, which a thread was just making, is deleted."""
    async with running_server(tmp_path) as server, trio.open_nursery() as nursery:
        broker = server.broker
        gate = Gate(broker._served, after=True)
        gates.append(gate)
        await begun(server, nursery)
        await until(lambda: len(gate.opened) == 1)
        topic_id = broker.image.topics_by_name["large"].topic_id
        row = PartitionImage(7, 1, (7,), (7,), 1)
        await broker.commit(lambda _: [PartitionsChanged(topic_id, ((0, row), (MANY - 1, row)))])
        gate.let_pass()
    assert {one.index for one in broker.partitions()} == set(range(1, MANY - 1))
    assert {one for _, one in broker.log_manager.logs} == set(range(1, MANY - 1))


class Jobs:
    """The commits of a broker whose logs are made when the test says so."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.store = ContestedStore()
        self.store.is_open.set()
        self.commits = Commits(self.store, MetadataImage(), Kind(1))
        self.jobs: list[LogJob] = []
        self.answered: list[str] = []
        self._nursery = nursery
        nursery.start_soon(self.commits.follow, self._publish)
        nursery.start_soon(self.commits.make)

    async def _publish(self, image: MetadataImage, changes: Sequence[Change]) -> LogJob | None:
        [created] = [one.topic for one in changes if isinstance(one, TopicCreated)]
        if len(created.partitions) == 1:
            return None
        missing = [(created, index) for index in range(len(created.partitions))]
        self.jobs.append(LogJob([], missing))
        return self.jobs[-1]

    async def create(self, name: str, partitions: int, asker: Asker = NOBODY) -> None:
        """Ask for a topic, and wait until nothing more happens."""
        row = PartitionImage(1, 0, (1,), (1,), 0)
        topic = TopicImage(name, name.encode(), (row,) * partitions, 1)

        async def ask() -> None:
            await self.commits.commit(lambda _: [TopicCreated(topic)], asker)
            self.answered.append(name)

        self._nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()

    async def finish(self, number: int) -> None:
        """All logs of a job are made."""
        self.jobs[number].missing.clear()
        self.jobs[number].done.set()
        await trio.testing.wait_all_tasks_blocked()


async def test_a_commit_returns_when_its_own_logs_are_made() -> None:
    """Not when those of others are."""
    async with trio.open_nursery() as nursery:
        jobs = Jobs(nursery)
        await jobs.create("large", 100, Client())
        await jobs.create("second", 100, Client())
        await jobs.create("small", 1, Client())
        assert jobs.answered == ["small"]
        await jobs.finish(1)
        assert jobs.answered == ["small", "second"]
        await jobs.finish(0)
        assert jobs.answered == ["small", "second", "large"]
        assert jobs.commits._unfinished == {}
        nursery.cancel_scope.cancel()


async def test_the_brokers_own_changes_wait_for_no_logs_of_clients() -> None:
    """Neither a smaller ISR nor a stop waits for a client's topic in the same commit."""
    async with trio.open_nursery() as nursery:
        jobs = Jobs(nursery)
        jobs.store.is_open = trio.Event()
        await jobs.create("first", 1, Client())
        await jobs.create("large", 100, Client())

        async def change() -> None:
            await jobs.commits.commit(lambda _: [ProducerIdsAllocated(5)])
            jobs.answered.append("own")

        nursery.start_soon(change)
        await trio.testing.wait_all_tasks_blocked()
        jobs.store.is_open.set()
        await trio.testing.wait_all_tasks_blocked()
        assert len(jobs.store.commits) == 2
        assert jobs.answered == ["first", "own"]
        await jobs.finish(0)
        assert jobs.answered == ["first", "own", "large"]
        nursery.cancel_scope.cancel()


async def test_logs_that_are_left_to_make_are_bounded() -> None:
    """A second topic of 10,000 partitions waits for the first; a small one, and kwire's, don't."""
    async with trio.open_nursery() as nursery:
        jobs = Jobs(nursery)
        await jobs.create("large", 10_000, Client())
        await jobs.create("second", 9, Client())
        await jobs.create("own", 50)
        await jobs.create("small", 1, Client())
        assert [len(one.missing) for one in jobs.jobs] == [10_000, 50]
        assert jobs.answered == ["small"]
        await jobs.finish(0)
        assert [len(one.missing) for one in jobs.jobs] == [0, 50, 9]
        nursery.cancel_scope.cancel()


async def test_a_held_change_waits_for_room_only() -> None:
    """Not for all logs of the large topic, which take longer than clients wait.

    As many have their turn again as have room together: each is decided anew, for which all wait.
    """
    async with trio.open_nursery() as nursery:
        jobs = Jobs(nursery)
        await jobs.create("large", 10_000, Client())
        for name in ("second", "third"):
            await jobs.create(name, 3000, Client())
        await jobs.create("small", 12, Client())
        decided = []
        hold = jobs.commits._waiting.hold
        jobs.commits._waiting.hold = lambda *some: decided.append(some) or hold(*some)
        for made, answer in ((11, [10_000]), (12, [10_000, 12]), (2999, [10_000, 12])):
            del jobs.jobs[0].missing[10_000 - made :]
            jobs.commits.look_at_held()
            await trio.testing.wait_all_tasks_blocked()
            assert [len(one.missing) + made * (one is jobs.jobs[0]) for one in jobs.jobs] == answer
        del jobs.jobs[0].missing[6500:]
        jobs.commits.look_at_held()
        await trio.testing.wait_all_tasks_blocked()
        assert [len(one.missing) for one in jobs.jobs] == [6500, 12, 3000]
        assert not decided
        await jobs.finish(0)
        assert [len(one.missing) for one in jobs.jobs] == [0, 12, 3000, 3000]
        nursery.cancel_scope.cancel()


async def test_others_have_room_while_a_large_topic_is_made(
    tmp_path: Path, gates: list[Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker looks at what is held after each slice."""
    monkeypatch.setattr(commits, "MOST_LOGS_LEFT", MANY)
    async with running_server(tmp_path) as server, trio.open_nursery() as nursery:
        gate = Gate(server.broker._served)
        gates.append(gate)
        await begun(server, nursery)

        async def ask() -> None:
            wanted = NewTopic("second", LOGS_PER_TURN + 1, 1)
            broker = server.broker
            await broker.commit(lambda image: create_topic(image, wanted, broker.random), Client())

        nursery.start_soon(ask)
        await until(lambda: bool(server.broker._commits._waiting._held))
        gate.let_pass(2)
        await until(lambda: "second" in server.broker.image.topics_by_name)
        gate.let_pass()


async def test_a_held_change_whose_client_goes_is_forgotten() -> None:
    """It isn't made when there is room again."""
    async with trio.open_nursery() as nursery:
        jobs = Jobs(nursery)
        await jobs.create("large", 10_000, Client())
        gone = Client()
        await jobs.create("second", 9, gone)
        gone.has_left = True
        with pytest.RaisesGroup(KafkaError, allow_unwrapped=True, flatten_subgroups=True):
            async with trio.open_nursery() as inner:
                jobs._nursery = inner
                await jobs.create("third", 9, gone)
                await jobs.finish(0)
        nursery.cancel_scope.cancel()
