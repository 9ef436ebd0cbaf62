"""Workers of one share group that come, go and die, and what all of them know of its records.

Rules:

- A record whose acknowledgement was answered comes to nobody who asks after that.
- While a worker surely has a lock, the same leader gives the record to no other worker. A new
  leader may: who has acquired what isn't persistent, as in Kafka.
- No delivery has a higher number than the limit. A leader counts every delivery that was released.
- In the end each record was accepted, or has a dead letter. One that was rejected may have been
  accepted before by another worker: what is past is acknowledged without an error, as in Kafka.
"""

from typing import NamedTuple

import trio

from kwire.client.cluster import Cluster
from kwire.client.configs import Change, Resource, ResourceType, alter_configs
from kwire.client.leaders import TopicPartition
from kwire.client.moving import read_all
from kwire.client.offsets import ends_of
from kwire.client.share_groups import share_offsets
from kwire.client.share_member import ACCEPT, REJECT, RELEASE, Delivery, ShareMember
from kwire.client.topics import create_topics
from kwire.record.records import Record
from tests.simulation.virtual_time import pass_s
from tests.simulation.workloads import FAILURES, PARTITIONS, Workload
from tests.simulation.world import World

GROUP, TOPIC, DEAD = "workers", "jobs", "dlq.jobs"
LOCK_S = 1.0
LIMIT = 3
AT_ONCE = 4
DRAIN_S = 90.0

SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
_GROUP_CONFIGS = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": str(int(LOCK_S * 1000)),
    "share.delivery.count.limit": str(LIMIT),
    "share.session.timeout.ms": "6000",
    "share.heartbeat.interval.ms": "1000",
    "errors.deadletterqueue.topic.name": DEAD,
}

Place = tuple[int, int]
"""Partition and offset of a record."""


def epoch_of(world: World, index: int) -> int:
    """The present leader epoch of a partition."""
    return world.checks.image.topics_by_name[TOPIC].partitions[index].leader_epoch


class Lock(NamedTuple):
    """A lock that a worker surely has in this time, and the epoch of the leader that gave it."""

    worker: str
    since_s: float
    until_s: float
    epoch: int


class Queue:
    """What all workers know together."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.settled_s: dict[Place, float] = {}
        """When the acceptance or rejection of a record was answered."""
        self.accepted: set[Place] = set()
        """Records that somebody has tried to accept."""
        self.locks: dict[Place, Lock] = {}
        self._released: dict[tuple[Place, int], int] = {}
        self.deliveries = self.again = 0

    def delivered(self, worker: str, delivery: Delivery, asked_s: float, epoch: int) -> None:
        """A worker has got a record, which it has asked for at this time."""
        place = delivery.partition.partition, delivery.record.offset
        what = f"{place} for {worker}, delivery {delivery.number}"
        self.deliveries += 1
        self.again += delivery.number > 1
        settled_s = self.settled_s.get(place, asked_s)
        assert settled_s >= asked_s, f"an acknowledged record comes again: {what}"
        assert 1 <= delivery.number <= LIMIT, f"beyond the limit: {what}"
        now_s = trio.current_time()
        is_same_leader = epoch == epoch_of(self._world, place[0])
        lock = self.locks.get(place)
        if lock is not None and is_same_leader and lock.epoch == epoch:
            is_apart = asked_s < lock.since_s or now_s >= lock.until_s
            assert is_apart or lock.worker == worker, f"two owners, {lock}: {what}"
        if is_same_leader:
            least = self._released.get((place, epoch), 0) + 1
            assert delivery.number >= least, f"{least - 1} releases aren't counted: {what}"
        # The broker counts in whole milliseconds, from the one in which the lock began.
        self.locks[place] = Lock(worker, now_s, asked_s + LOCK_S - 0.001, epoch)

    def tries(self, delivery: Delivery, kind: int) -> None:
        """A worker is about to acknowledge: from now on its lock may be gone."""
        place = delivery.partition.partition, delivery.record.offset
        self.locks.pop(place, None)
        if kind == ACCEPT:
            self.accepted.add(place)

    def answered(self, delivery: Delivery, kind: int, epoch: int) -> None:
        """An acknowledgement was answered without an error."""
        place = delivery.partition.partition, delivery.record.offset
        if kind == RELEASE:
            if epoch == epoch_of(self._world, place[0]):
                key = place, epoch
                self._released[key] = self._released.get(key, 0) + 1
            return
        self.settled_s.setdefault(place, trio.current_time())

    def forget_locks(self, worker: str) -> None:
        """A worker's locks may end at any time, because its connections do."""
        self.locks = {place: one for place, one in self.locks.items() if one.worker != worker}


class Worker(Workload):
    """One worker after the other, each a member with connections of its own."""

    def __init__(self, world: World, name: str, queue: Queue) -> None:
        super().__init__(world, name)
        self.pause_s = 0.2
        self.queue = queue
        self._life = 0

    async def step(self) -> None:
        """The life of one worker."""
        self._life += 1
        name = f"{self.name}-{self._life}"
        member = ShareMember(self.world.client(name), GROUP, [TOPIC])
        rounds = self.random.randint(2, 25)
        try:
            await member.join()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(member.keep_alive)
                for _ in range(rounds):
                    if self.stops:
                        break
                    await self._work(name, member)
                nursery.cancel_scope.cancel()
        except* FAILURES:
            pass
        self.queue.forget_locks(name)
        if self.stops or self.random.random() < 0.5:
            await member.leave()
        self.world.network.end_process(name)

    async def _work(self, name: str, member: ShareMember) -> None:
        asked_s = trio.current_time()
        epochs = [epoch_of(self.world, index) for index in range(PARTITIONS)]
        found = await member.fetch(self.random.randint(1, AT_ONCE))
        for one in found:
            self.queue.delivered(name, one, asked_s, epochs[one.partition.partition])
        if not found:
            self.done += bool(member.partitions)
            return
        long = self.random.random() < 0.1
        await pass_s(LOCK_S * (0.8 + self.random.random()) if long else 0.05)
        kinds = {one: self._kind() for one in found if self.random.random() < 0.95}
        for one, kind in kinds.items():
            self.queue.tries(one, kind)
        errors = await member.acknowledge(kinds)
        for one, kind in kinds.items():
            if one not in errors:
                self.queue.answered(one, kind, epochs[one.partition.partition])
                self.done += 1

    def _kind(self) -> int:
        return self.random.choices((ACCEPT, RELEASE, REJECT), (5, 4, 1))[0]


async def begin_queue(world: World) -> Queue:
    """Create the topics and configure the group."""
    client = world.client("queue")
    dead = {"errors.deadletterqueue.group.enable": "true"}
    for names, configs in (([TOPIC], None), ([DEAD], dead)):
        made = await create_topics(client, names, partitions=PARTITIONS, configs=configs)
        for outcome in made.values():
            assert not isinstance(outcome, Exception), outcome
    await alter_configs(client, Resource(ResourceType.GROUP, GROUP), Change(_GROUP_CONFIGS))
    return Queue(world)


async def check_queue(world: World, queue: Queue) -> None:
    """Deal with what is left, and see that no record is lost."""
    client = world.client("last")
    ends = await ends_of(client, [TopicPartition(TOPIC, index) for index in range(PARTITIONS)])
    member = ShareMember(client, GROUP, [TOPIC])
    with trio.fail_after(DRAIN_S):
        await member.join()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.keep_alive)
            while True:
                asked_s = trio.current_time()
                found = await member.fetch(100)
                for one in found:
                    epoch = epoch_of(world, one.partition.partition)
                    queue.delivered("last", one, asked_s, epoch)
                    queue.tries(one, ACCEPT)
                await member.acknowledge(dict.fromkeys(found, ACCEPT))
                if not found and await _has_no_lag(world):
                    break
            nursery.cancel_scope.cancel()
        await member.leave()
    dead = await _dead_letters(client)
    places = {(one.partition, offset) for one, end in ends.items() for offset in range(end)}
    lost = sorted(places - queue.accepted - dead)
    assert not lost, f"neither accepted nor dead: {lost}"
    assert dead <= places, f"dead letters of no record: {sorted(dead - places)}"
    text = f"{len(places)} records, {queue.deliveries} deliveries, {queue.again} of them again, "
    world.note(f"{text}{len(dead)} dead")


async def _dead_letters(cluster: Cluster) -> set[Place]:
    """The records that have a dead letter."""
    found: set[Place] = set()

    def take(_: TopicPartition, record: Record) -> None:
        told = dict(record.headers)
        places = (told[f"__dlq.errors.{name}"] for name in ("partition", "offset"))
        partition, offset = (int(bytes(one or b"")) for one in places)
        found.add((partition, offset))

    await read_all(cluster, [TopicPartition(DEAD, index) for index in range(PARTITIONS)], take)
    return found


async def _has_no_lag(world: World) -> bool:
    offsets = await share_offsets(world.client("lag"), GROUP)
    return len(offsets) == PARTITIONS and all(one.lag == 0 for one in offsets.values())
