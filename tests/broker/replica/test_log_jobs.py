"""The logs of a large commit are made in slices, and later commits are followed in between."""

import gc
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker import commits
from kwire.broker.commits import Commits
from kwire.broker.proposals import NOBODY, Asker
from kwire.broker.replica.replica_manager import LOGS_PER_TURN, LogJob
from kwire.budget.thread_pool import ThreadPool
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import (
    Change,
    ConfigChanged,
    PartitionsChanged,
    ProducerIdsAllocated,
    TopicCreated,
)
from kwire.metadata.image import ConfigResourceType, MetadataImage, PartitionImage, TopicImage
from kwire.testing.waiting import until
from tests.broker.queueing import Client, ContestedStore
from tests.support.asking import error_of
from tests.support.gated_disk import MAKE, RENAME, Gate, GatedDisk
from tests.support.in_process import RunningServer, running_server

SLICES = 5
MANY = SLICES * LOGS_PER_TURN


@pytest.fixture
def disk() -> GatedDisk:
    """The disk of the broker."""
    return GatedDisk()


def directories(tmp_path: Path, name: str) -> list[str]:
    """The directories whose names begin with this one."""
    return sorted(path.name for path in tmp_path.glob(f"{name}*"))


async def begun(server: RunningServer, nursery: trio.Nursery, gate: Gate) -> None:
    """A topic with many partitions is committed, and a thread is making the first of its logs."""
    nursery.start_soon((await server.connect()).topic, "large", MANY)
    await until(lambda: bool(gate.waiting))


async def test_a_small_topic_does_not_wait_for_a_large_one(tmp_path: Path, disk: GatedDisk) -> None:
    """It waits for the slice that is being made, and for no other; the large one is made, too."""
    gate = disk.hold(MAKE, "large-")
    async with running_server(tmp_path, disk=disk) as server, trio.open_nursery() as nursery:
        await begun(server, nursery, gate)
        done = trio.Event()

        async def small() -> None:
            await server.topic("small")
            done.set()

        nursery.start_soon(small)
        await until(lambda: "small" in server.broker.image.topics_by_name)
        gate.let_pass(LOGS_PER_TURN)
        await done.wait()
        assert await server.end_offset("small") == 0
        made = [name.rpartition("-")[0] for name in disk.made("large-", "small-")]
        assert made == ["large"] * LOGS_PER_TURN + ["small"]
        missing = await error_of(server.end_offset("large", MANY - 1))
        assert missing is ErrorCode.NOT_LEADER_OR_FOLLOWER
        gate.open()
    assert len(disk.made("large-", "small-")) == MANY + 1


async def test_a_large_topic_is_there_when_its_commit_returns(tmp_path: Path) -> None:
    """And gone, with all of its logs, when its deletion returns."""
    async with running_server(tmp_path) as server:
        await server.topic("large", MANY)
        assert [await server.end_offset("large", index) for index in range(MANY)] == [0] * MANY
        assert len(directories(tmp_path, "large")) == MANY
        await server.delete_topic("large")
        assert server.broker.partitions() == []
        assert all(name.endswith("-delete") for name in directories(tmp_path, "large"))
        assert server.broker.log_manager.logs == {}
        assert not (tmp_path / "kwire-deletions").exists()


async def test_the_smallest_of_several_large_ones_comes_first(
    tmp_path: Path, disk: GatedDisk
) -> None:
    """So who makes 10 partitions doesn't wait for 100; every eighth slice is the oldest one's."""
    gate = disk.hold(MAKE, "large-")
    smaller = LOGS_PER_TURN + 2
    async with running_server(tmp_path, disk=disk) as server, trio.open_nursery() as nursery:
        await begun(server, nursery, gate)
        nursery.start_soon(server.topic, "smaller", smaller)
        await until(lambda: "smaller" in server.broker.image.topics_by_name)
        await trio.testing.wait_all_tasks_blocked()
        gate.open()
    made = [name.rpartition("-")[0] for name in disk.made("large-", "smaller-")]
    assert made[: LOGS_PER_TURN + smaller] == ["large"] * LOGS_PER_TURN + ["smaller"] * smaller


async def test_what_is_deleted_meanwhile_is_not_made(tmp_path: Path, disk: GatedDisk) -> None:
    """Neither the logs of later slices, nor those that a thread was just making."""
    gate = disk.hold(MAKE, "large-")
    async with running_server(tmp_path, disk=disk) as server, trio.open_nursery() as nursery:
        broker = server.broker
        await begun(server, nursery, gate)
        nursery.start_soon(server.delete_topic, "large")
        await until(lambda: "large" not in broker.image.topics_by_name)
        gate.open()
    assert all(name.endswith("-delete") for name in directories(tmp_path, "large"))
    assert len(directories(tmp_path, "large")) == LOGS_PER_TURN
    assert broker.log_manager.logs == {}


async def test_a_name_can_be_used_before_its_old_logs_are_deleted(
    tmp_path: Path, disk: GatedDisk
) -> None:
    """The old log is deleted before the new one is made; it isn't put aside as a stray one."""
    again = LOGS_PER_TURN + 2
    async with running_server(tmp_path, disk=disk) as server:
        broker = server.broker
        old = await server.topic("t", MANY)
        gate = disk.hold(RENAME, "t-")
        async with trio.open_nursery() as nursery:
            nursery.start_soon((await server.connect()).delete_topic, "t")
            await until(lambda: bool(gate.waiting))
            assert await error_of(server.end_offset("t", MANY - 1))
            nursery.start_soon(server.topic, "t", again)
            await until(lambda: "t" in broker.image.topics_by_name)
            await trio.testing.wait_all_tasks_blocked()
            gate.open()
        assert {broker.partition("t", index).topic_id == old for index in range(again)} == {False}
        assert list(broker.log_manager.logs) == [("t", index) for index in range(again)]
    steps = [disk.done.index((RENAME, f"t-{n}")) for n in (again - 1, MANY - 1)]
    made_anew = len(disk.done) - 1 - disk.done[::-1].index((MAKE, f"t-{again - 1}"))
    assert steps[0] < made_anew < steps[1]
    names = directories(tmp_path, "t-")
    assert len([name for name in names if not name.endswith("-delete")]) == again
    assert len(names) == MANY + again


async def test_settings_that_change_meanwhile_count(tmp_path: Path, disk: GatedDisk) -> None:
    """Also for a log that a thread was just making with the settings of before."""
    gate = disk.hold(MAKE, "large-")
    async with running_server(tmp_path, disk=disk) as server, trio.open_nursery() as nursery:
        broker = server.broker
        await begun(server, nursery, gate)
        kind = ConfigResourceType.TOPIC
        await broker.commit(lambda _: [ConfigChanged(kind, "large", "retention.bytes", "77")])
        gate.open()
    assert {one.log.config.retention_bytes for one in broker.partitions()} == {77}
    assert len(broker.partitions()) == MANY


async def test_a_replica_that_is_given_away_meanwhile_is_not_served(
    tmp_path: Path, disk: GatedDisk
) -> None:
    """Its log, which a thread was just making, is deleted."""
    gate = disk.hold(MAKE, "large-")
    async with running_server(tmp_path, disk=disk) as server, trio.open_nursery() as nursery:
        broker = server.broker
        await begun(server, nursery, gate)
        topic_id = broker.image.topics_by_name["large"].topic_id
        row = PartitionImage(7, 1, (7,), (7,), 1)
        await broker.commit(lambda _: [PartitionsChanged(topic_id, ((0, row), (MANY - 1, row)))])
        gate.open()
    assert {one.index for one in broker.partitions()} == set(range(1, MANY - 1))
    assert {one for _, one in broker.log_manager.logs} == set(range(1, MANY - 1))


class Jobs:
    """The commits of a broker whose logs are made when the test says so."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.store = ContestedStore()
        self.store.is_open.set()
        self.commits = Commits(self.store, MetadataImage(), ThreadPool(1))
        self.jobs: list[LogJob] = []
        self.answered: list[str] = []
        self.decided: list[str] = []
        self.nursery = nursery
        nursery.start_soon(self.commits.follow_store, self._publish)
        nursery.start_soon(self.commits.make_commits)

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

        def decide(_: MetadataImage) -> list[Change]:
            self.decided.append(name)
            return [TopicCreated(topic)]

        async def ask() -> None:
            await self.commits.commit(decide, asker)
            self.answered.append(name)

        self.nursery.start_soon(ask)
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
        jobs.jobs.clear()
        assert not [one for one in gc.get_objects() if isinstance(one, LogJob)]
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
        assert jobs.decided == ["large", "second", "third", "small"]
        for made, answer in ((11, [10_000]), (12, [10_000, 12]), (2999, [10_000, 12])):
            del jobs.jobs[0].missing[10_000 - made :]
            jobs.commits.look_at_held()
            await trio.testing.wait_all_tasks_blocked()
            assert [len(one.missing) + made * (one is jobs.jobs[0]) for one in jobs.jobs] == answer
        del jobs.jobs[0].missing[6500:]
        jobs.commits.look_at_held()
        await trio.testing.wait_all_tasks_blocked()
        assert [len(one.missing) for one in jobs.jobs] == [6500, 12, 3000]
        assert jobs.decided[4:] == ["small", "second"]
        await jobs.finish(0)
        assert [len(one.missing) for one in jobs.jobs] == [0, 12, 3000, 3000]
        nursery.cancel_scope.cancel()


async def test_others_have_room_while_a_large_topic_is_made(
    tmp_path: Path, disk: GatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker looks at what is held after each slice."""
    monkeypatch.setattr(commits, "MOST_LOGS_LEFT", MANY)
    gate = disk.hold(MAKE, "large-")
    async with running_server(tmp_path, disk=disk) as server, trio.open_nursery() as nursery:
        await begun(server, nursery, gate)
        nursery.start_soon(server.topic, "second", LOGS_PER_TURN + 1)
        await trio.testing.wait_all_tasks_blocked()
        assert "second" not in server.broker.image.topics_by_name
        gate.let_pass(2 * LOGS_PER_TURN)
        await until(lambda: "second" in server.broker.image.topics_by_name)
        gate.open()


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
                jobs.nursery = inner
                await jobs.create("third", 9, gone)
                await jobs.finish(0)
        nursery.cancel_scope.cancel()
