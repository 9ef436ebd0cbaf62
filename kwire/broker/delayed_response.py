"""Answers of coordinators wait until the records on which they rest are committed.

Committed means that a failover can't take them back: the high watermark covers them.

Rules:

- Every answer of a coordinator rests on all records that its partition has when the answer is made.
  That holds for an answer that only reads, too: it may contain data that another request wrote a
  moment before. So an answer is sent when the high watermark covers these records.
- Only a partition with several replicas has ``CommittedRecords``. With one replica, only a power
  cut can take records back, and ``flush.messages`` protects from that (``Flush``).
- A handler notes what its answer rests on (``Flusher.rest_on``), and the connection waits for them.
- A broker that is cut off from the metadata store may have a successor with newer records. It
  answers only while the followers in sync fetch from it, because they don't fetch from a former
  leader.
- A partition that this broker no longer leads, or leads in a newer epoch, is another object. An
  answer that still waits for the old object is refused.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import trio

from kwire.broker.flusher import Demand
from kwire.broker.partition import Partition
from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.errors import ErrorCode, KafkaError


class Waiter(Protocol):
    """Something that waits; trio.Event is one."""

    def set(self) -> None:
        """Wake up."""


class CommittedRecords(Demand):
    """The records of one partition that this broker leads, and the answers that wait for them.

    ``is_here`` says whether this broker still leads the partition in the same epoch. An answer
    waits for ``timeout_s`` at the most.
    """

    __slots__ = ("_is_here", "_waiting", "partition", "timeout_s")

    def __init__(
        self, partition: Partition, is_here: Callable[[Partition], bool], timeout_s: float
    ) -> None:
        self.partition = partition
        self.timeout_s = timeout_s
        self._is_here = is_here
        self._waiting: deque[tuple[int, float, Waiter]] = deque()
        partition.waiters.add(self)  # for as long as there is this partition

    @property
    def end_offset(self) -> int:
        """The offset up to which an answer that is made now rests on the partition."""
        return self.partition.log.log_end_offset

    def covers(self, offset: int) -> bool:
        """Whether every record below an offset is replicated."""
        return self.partition.high_watermark >= offset

    @property
    def waiting(self) -> int:
        """How many answers wait for it."""
        return len(self._waiting)

    def wait_for(self, offset: int, told: Waiter, deadline_s: float) -> None:
        """Call ``told.set`` when ``refusal`` of an offset is known, but not after the deadline.

        ``set`` looks at the first only: who comes later waits for no less, even if its offset,
        which it noted earlier, is smaller.
        """
        now_s, waiting = trio.current_time(), self._waiting
        while waiting and waiting[0][1] < now_s:
            waiting.popleft()
        waiting.append((offset, deadline_s, told))
        if not self._leads():
            self.set()

    def set(self) -> None:
        """Wake the answers whose wait is over: the partition has changed."""
        waiting = self._waiting
        if not waiting:
            return
        is_here = self._leads()
        while waiting and (not is_here or waiting[0][0] <= self.partition.high_watermark):
            waiting.popleft()[2].set()

    def refusal(self, offset: int) -> ErrorCode:
        """Why an answer that rests on the records below an offset can't be given; NONE if it can.

        NOT_COORDINATOR if another leader may not have them, else COORDINATOR_NOT_AVAILABLE.
        """
        if self.covers(offset):
            partition = self.partition
            is_sure = not isinstance(partition, LeaderPartition) or partition.is_surely_led
            return ErrorCode.NONE if is_sure else ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if self._leads() else ErrorCode.NOT_COORDINATOR

    def _leads(self) -> bool:
        return not self.partition.is_deleted and self._is_here(self.partition)

    async def replicated(self) -> None:
        """Wait until everything that is written now is replicated; KafkaError as ``refusal``."""
        offset = self.end_offset
        if not self.covers(offset):
            told = trio.Event()
            deadline_s = trio.current_time() + self.timeout_s
            self.wait_for(offset, told, deadline_s)
            with trio.move_on_at(deadline_s):
                await told.wait()
        code = self.refusal(offset)
        if code:
            name = f"{self.partition.topic}-{self.partition.index}"
            raise KafkaError(code, f"{name} is not replicated up to offset {offset}")


class Replication:
    """Waits until other brokers have what is written in a partition now, such as a marker.

    It is awaited like a ``Flush``, by tasks.
    """

    __slots__ = ("_is_here", "_offset", "_partition", "_timeout_s")

    def __init__(
        self, partition: Partition, is_here: Callable[[Partition], bool], timeout_s: float
    ) -> None:
        self._partition = partition
        self._offset = partition.log.log_end_offset
        self._is_here = is_here
        self._timeout_s = timeout_s

    async def wait(self) -> None:
        """Wait; KafkaError: NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT."""
        partition = self._partition
        name = f"{partition.topic}-{partition.index}"
        with trio.move_on_after(self._timeout_s):
            while partition.high_watermark < self._offset:
                if partition.is_deleted or not self._is_here(partition):
                    raise KafkaError(
                        ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{name} has another leader or epoch"
                    )
                changed = trio.Event()
                partition.waiters.add(changed)
                try:
                    await changed.wait()
                finally:
                    partition.waiters.discard(changed)
        if partition.high_watermark < self._offset:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"{name} isn't replicated up to {self._offset}"
            )
