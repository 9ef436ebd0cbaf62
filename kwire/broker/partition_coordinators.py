"""The frame of all coordinators: the partitions of one internal topic, and a coordinator for each.

Rules:

- The records of a coordinator are in a partition of the topic (``lookup``). It is loaded when this
  broker begins to lead that partition, and dropped when it stops leading it. Until it is loaded,
  the answer is COORDINATOR_LOAD_IN_PROGRESS.
- A damaged or offline partition has no coordinator. Requests for it get NOT_COORDINATOR or
  COORDINATOR_NOT_AVAILABLE; the other partitions are served as usual.
- A coordinator answers only from replicated records (``committed``), even if a request only reads.
  A new leader loads its coordinator up to the end of the log, and so with records that aren't
  replicated yet.
- One task does the work that no request causes, for all coordinators of the topic.
- A kind of coordinator says how one is made (``_new``), and what else it does and when.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import trio

from kwire.broker.coordinator_log import CoordinatorLog
from kwire.broker.coordinator_lookup import CoordinatorLookup
from kwire.broker.partition import Partition
from kwire.broker.view import BrokerView
from kwire.coordinator.coordinator import Coordinator
from kwire.coordinator.effects import Effects
from kwire.errors import ErrorCode, KafkaError
from kwire.runtime import CoordinatorRuntime

if TYPE_CHECKING:
    from kwire.broker.delayed_response import CommittedRecords

log = logging.getLogger(__name__)

_C = TypeVar("_C", bound=Coordinator)


class Loaded(Generic[_C]):
    """A coordinator that is ready, the runtime that drives it, and its partition.

    ``committed`` has the records on which its answers rest; it is None at replication factor 1.
    """

    __slots__ = ("committed", "coordinator", "partition", "runtime")

    def __init__(
        self,
        coordinator: _C,
        runtime: CoordinatorRuntime,
        partition: Partition,
        committed: "CommittedRecords | None",
    ) -> None:
        self.coordinator = coordinator
        self.runtime = runtime
        self.partition = partition
        self.committed = committed

    def carry_out(self, effects: Effects) -> None:
        """Write the records and send the replies; KafkaError if the records can't be written."""
        self.runtime.carry_out(effects)


_L = TypeVar("_L", bound=Loaded[Any])


class Periodic(NamedTuple):
    """Work to do again and again, after the milliseconds that a setting has."""

    setting: str
    do: Callable[[], Awaitable[object]]


class PartitionCoordinators(ABC, Generic[_L]):
    """The coordinators of one kind, ``_L`` when loaded.

    ``unusable`` names what can't be used while a partition can't be loaded.
    """

    topic_name: ClassVar[str]
    unusable: ClassVar[str]

    def __init__(self, broker: BrokerView, *periodic: Periodic) -> None:
        self._broker = broker
        self.lookup = CoordinatorLookup(broker, self.topic_name)
        self._loaded: dict[int, _L] = {}
        self._look_again = trio.Event()
        self._look_again.set()
        self._changed = trio.Event()
        self._due_at_ms = {one: self._next_ms(one) for one in periodic}
        self._is_closed = False

    @abstractmethod
    def _new(self, partition: Partition) -> _L:
        """A coordinator over a partition, with nothing loaded yet."""

    def _runtime(
        self,
        coordinator: Coordinator,
        partition: Partition,
        schedule: Callable[[int], None] = lambda deadline_ms: None,
        **more: Any,
    ) -> CoordinatorRuntime:
        """What drives a new coordinator; ``more`` are further arguments of the runtime."""
        return CoordinatorRuntime(
            coordinator,
            partition.append_own,
            self.now_ms,
            schedule,
            flush=lambda: partition.flush,
            do_afterwards=lambda function: self._broker.do_afterwards(function),
            **more,
        )

    def now_ms(self) -> int:
        """Milliseconds for the deadlines of the coordinators: here the date."""
        return self._broker.now_ms()

    # For handlers and other parts of the broker

    @property
    def has_topic(self) -> bool:
        """Whether the topic exists."""
        return self.lookup.topic_exists

    async def ensure_topic(self) -> None:
        """Create the topic if it is missing; KafkaError (COORDINATOR_NOT_AVAILABLE)."""
        await self.lookup.ensure_topic()

    def of(self, key: str, *, rests: bool = True) -> _L:
        """The coordinator of a key, such as a group's id.

        If ``rests``, the answer to the current request waits until the coordinator's records are
        replicated. Otherwise the caller waits for that itself. Raises KafkaError: NOT_COORDINATOR,
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        if self._is_closed:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        loaded = self._get(self.lookup.partition_of(key))
        if rests and loaded.committed is not None:
            self._broker.flusher.rest_on(loaded.committed)
        return loaded

    def _get(self, index: int) -> _L:
        loaded = self._loaded.get(index)
        if loaded is not None:
            if self._is_here(loaded):
                return loaded
            self._resign(index)
        self._loaded[index] = loaded = self._new(self.lookup.empty_partition(index))
        return loaded

    def _is_here(self, loaded: _L) -> bool:
        return self.lookup.is_here(loaded.partition)

    def loaded(self) -> list[_L]:
        """The coordinators that are ready now."""
        return list(self._loaded.values())

    def all_coordinators(self) -> list[_L]:
        """Every coordinator whose partition can be used; the current answer rests on them.

        Raises KafkaError (COORDINATOR_LOAD_IN_PROGRESS) while one isn't ready yet.
        """
        found = [self._get(index) for index in self.lookup.partitions_here()]
        for loaded in found:
            if loaded.committed is not None:
                self._broker.flusher.rest_on(loaded.committed)
        return found

    def close(self) -> None:
        """Refer all requests to another coordinator, because the broker stops."""
        self._is_closed = True
        for loaded in self._loaded.values():
            self._end(loaded)

    # The partitions that this broker leads

    def look_again(self) -> None:
        """Load and drop coordinators, because this broker may lead other partitions now."""
        self._look_again.set()

    async def run(self) -> None:
        """Coordinate what is in the partitions that this broker leads, forever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_partitions)
            await self._keep_time()

    async def _follow_partitions(self) -> None:
        """Compare the coordinators with the partitions led here, whenever these change."""
        while True:
            await self._look_again.wait()
            self._look_again = trio.Event()
            self._resign_lost()
            for partition in self.lookup.partitions_to_load():
                if partition.index not in self._loaded:
                    await self._load(partition)
            await self._after_loading()

    async def _after_loading(self) -> None:
        """Do what may be due because other partitions are led here."""

    async def forget_deleted_topics(self) -> None:
        """Delete what the coordinators keep about deleted topics; here nothing."""

    async def _load(self, partition: Partition) -> None:
        batches = CoordinatorLog(partition, self.lookup.is_here)
        loaded = self._new(partition)
        try:
            await loaded.runtime.load(batches)
        except (KafkaError, OSError) as error:
            if not self.lookup.is_here(partition):
                return  # its next leader may have truncated it meanwhile
            batches.say_why_not_loaded(error, self.unusable)
            self.lookup.mark_damaged(partition)
            return
        if self.lookup.is_here(partition):
            self._loaded[partition.index] = loaded
            self._begin(loaded)

    def _begin(self, loaded: _L) -> None:
        """Begin with a coordinator that has just been loaded."""

    def _resign_lost(self) -> None:
        """Drop the coordinators whose partitions this broker no longer leads."""
        for index, loaded in list(self._loaded.items()):
            if not self.lookup.is_here(loaded.partition):
                self._resign(index)

    def _resign(self, index: int) -> None:
        loaded = self._loaded.pop(index, None)
        if loaded is not None:
            assert loaded.partition.index == index, (loaded.partition.index, index)
            self._end(loaded)

    def _end(self, loaded: _L) -> None:
        """Answer those that wait for a coordinator which ends."""

    # Work that no request causes

    def wake_if_due(self) -> None:
        """Wake the task that keeps time when periodic work is overdue, also after a sleep."""
        if self._broker.clock.steady_ms() >= min(self._due_at_ms.values()):
            self._changed.set()

    def _next_ms(self, periodic: Periodic) -> int:
        return self._broker.clock.steady_ms() + self._broker.integer(periodic.setting)

    async def _keep_time(self) -> None:
        """Do the overdue work, forever."""
        while True:
            self._changed = trio.Event()
            with trio.move_on_after(max(0, self._wait_ms()) / 1000):
                await self._changed.wait()
            await self._do_overdue()
            for periodic, due_at_ms in self._due_at_ms.items():
                if self._broker.clock.steady_ms() >= due_at_ms:
                    self._due_at_ms[periodic] = self._next_ms(periodic)
                    await periodic.do()

    def _wait_ms(self) -> float:
        """How long there is nothing to do, if nothing changes."""
        return min(self._due_at_ms.values()) - self._broker.clock.steady_ms()

    async def _do_overdue(self) -> None:
        """Do work that isn't periodic, if some is overdue."""

    def _try_effects(self, loaded: _L, effects: Effects) -> bool:
        """Carry out effects that no request caused; log a failure, and try again later."""
        try:
            loaded.carry_out(effects)
        except KafkaError as error:
            log.error("cannot write to %s: %s", self.topic_name, error)
            return False
        return True
