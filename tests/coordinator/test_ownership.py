"""Any interleaving of members, time and restarts: no partition has two owners in one generation.

Here the clients are whole: each joins, syncs, sends heartbeats and commits as real ones do, the
leader assigns all partitions, and whoever is told to begins anew. What they do when, what is lost
and when the coordinator restarts is random; then all is calm, and the group has to settle.
"""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kwire.coordinator.classic_group import ClassicGroup, GroupState
from kwire.coordinator.effects import Effects
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.joining import Client
from kwire.coordinator.settings import GroupSettings
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.messages.leave_group import MemberIdentity
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.record.records import Record

GROUP = "g"
PARTITIONS = 8
BEGIN_ANEW = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.NOT_COORDINATOR,
)


class Consumer:
    """A client with a will of its own; ``owned`` is what it reads, None while it has nothing."""

    def __init__(self, world: "World", name: str, instance: str | None) -> None:
        self.world = world
        self.name = name
        self.instance = instance
        self.begin_anew()

    def begin_anew(self) -> None:
        """Know nothing."""
        self.member_id = ""
        self.rejoin()

    def rejoin(self) -> None:
        """Own nothing, and join with the next step."""
        self.generation = -1
        self.owned: frozenset[int] | None = None
        self.waits_for = ""
        self.wants = "join"

    def step(self) -> None:
        """Do what is next."""
        if self.waits_for:
            return
        try:
            getattr(self, f"_{self.wants}")()
        except KafkaError as error:
            self.heard(error.code)

    def heard(self, code: int) -> None:
        """An error was the answer."""
        self.waits_for = ""
        if code in BEGIN_ANEW:
            self.begin_anew()
        elif code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin()

    def _join(self) -> None:
        self.waits_for = "join"
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        client = Client(self.name, "/127.0.0.1", 9)
        now_ms = self.world.now_ms
        self.world.take(
            self.world.coordinator.classic.join(request, client, (self, "join"), now_ms)
        )

    def joined(self, response: JoinGroupResponse) -> None:
        """The answer to a join."""
        self.waits_for = ""
        if response.member_id:
            self.member_id = response.member_id
        if response.error_code and response.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            self.heard(response.error_code)
        elif not response.error_code:
            self.generation = response.generation_id
            self.wants = "sync"
            leads = response.leader == self.member_id and not response.skip_assignment
            self.led = [m.member_id for m in response.members] if leads else []

    def _sync(self) -> None:
        self.waits_for = "sync"
        count = len(self.led)
        assignments = [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=bytes(range(index, PARTITIONS, count))
            )
            for index, member_id in enumerate(self.led)
        ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            assignments=assignments,
        )
        now_ms = self.world.now_ms
        self.world.take(self.world.coordinator.classic.sync(request, (self, "sync"), now_ms))

    def synced(self, response: Any) -> None:
        """The answer to a sync: what it reads from now on."""
        self.waits_for = ""
        if response.error_code:
            self.heard(response.error_code)
            return
        self.owned = frozenset(response.assignment)
        self.wants = "beat"

    def _beat(self) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        self.world.coordinator.classic.heartbeat(request, self.world.now_ms)


class World:
    """A coordinator, its log, and five clients, of which two are one static member."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.log: list[Record] = []
        self.ids = 0
        self.history: dict[int, dict[int, str]] = {}
        instances = {"s": "i", "t": "i"}
        self.consumers = {n: Consumer(self, n, instances.get(n)) for n in "abcst"}
        self.restart()

    def restart(self) -> None:
        """Another coordinator loads what was written; whoever waits hears that it is gone."""
        settings = GroupSettings(initial_rebalance_delay_ms=0)
        self.coordinator = GroupCoordinator(settings, self._new_id)
        for record in self.log:
            self.coordinator.replay(record, -1, self.now_ms, loading=True)
        self.take(self.coordinator.begin(self.now_ms))
        for consumer in self.consumers.values():
            consumer.waits_for = ""

    def _new_id(self) -> str:
        self.ids += 1
        return str(self.ids)

    def take(self, effects: Effects) -> None:
        """Write, replay, answer."""
        for key, value, _ in effects.records:
            record = Record(len(self.log), self.now_ms, key, value)
            self.log.append(record)
            self.coordinator.replay(record, -1, self.now_ms, loading=False)
        for (consumer, verb), response in effects.replies:
            if consumer is not None and consumer.waits_for == verb:
                consumer.joined(response) if verb == "join" else consumer.synced(response)

    def leave(self, consumer: Consumer) -> None:
        """A member goes."""
        leaving = [MemberIdentity(member_id=consumer.member_id)]
        self.take(self.coordinator.classic.leave(GROUP, leaving, (None, ""), self.now_ms))
        consumer.begin_anew()

    def pass_time(self, ms: int) -> None:
        """Time passes; what is due is done when it is."""
        until_ms = self.now_ms + ms
        while (due := self.coordinator.next_deadline_ms()) is not None and due <= until_ms:
            self.now_ms = max(due, self.now_ms)
            self.take(self.coordinator.tick(self.now_ms))
        self.now_ms = until_ms

    def check(self) -> None:
        """In no generation has a partition two owners, of clients that may commit for it."""
        for consumer in self.consumers.values():
            owners = self.history.setdefault(consumer.generation, {})
            who = consumer.instance or consumer.name
            for partition in consumer.owned or ():
                assert owners.setdefault(partition, who) == who
        group = self.coordinator.groups.get(GROUP)
        if isinstance(group, ClassicGroup) and group.state is GroupState.STABLE:
            given = Counter(p for m in group.members.values() for p in m.assignment)
            assert all(count == 1 for count in given.values())

    def settle(self, names: str) -> None:
        """All is calm, and only these clients are there: in the end they share everything."""
        for _ in range(100):
            for name in names:
                self.consumers[name].step()
            self.pass_time(1_000)
            self.check()
        owned = [self.consumers[name].owned for name in names]
        assert all(part is not None for part in owned)
        shared = Counter(p for part in owned for p in part or ())
        assert shared == Counter(range(PARTITIONS))


deeds = st.one_of(
    st.tuples(st.just("step"), st.sampled_from("abcst")),
    st.tuples(st.just("step"), st.sampled_from("abcst")),
    st.tuples(st.just("leave"), st.sampled_from("abcst")),
    st.tuples(st.just("forget"), st.sampled_from("abcst")),
    st.tuples(st.just("time"), st.sampled_from([50, 500, 3_000, 11_000])),
    st.tuples(st.just("restart"), st.just("")),
)


@given(st.lists(deeds, max_size=60), st.sampled_from(["a", "ab", "abcs", "cs", "bt"]))
def test_partitions_have_one_owner_and_all_have_one_in_the_end(history, left):
    """Whatever happened before; a client that forgets its id is as good as a new one."""
    world = World()
    for deed, what in history:
        if deed == "restart":
            world.restart()
        elif deed == "time":
            world.pass_time(what)
        elif deed == "step":
            world.consumers[what].step()
        elif deed == "leave":
            world.leave(world.consumers[what])
        else:
            world.consumers[what].begin_anew()
        world.check()
    world.settle(left)
