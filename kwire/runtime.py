"""Drives a coordinator: writes its records, takes them back in, wakes who waits, tells it the time.

Rules:

- Records are written first; then the coordinator replays them, then the replies are given. When
  they can't be written nothing is replayed and every reply is an error.
- Whoever waits for a reply is a ``Reply``; an operation that is answered at once never waits.
- A coordinator is loaded by replaying its partition from the start, a piece at a time.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import trio

from kwire.coordinator.effects import Effects
from kwire.coordinator.records import CoordinatorRecord
from kwire.errors import ErrorCode, KafkaError
from kwire.record.batch import RecordBatch
from kwire.record.records import BatchBuilder, records

BATCHES_PER_TURN = 50
"""While loading, others have their turn after so many batches."""


class Coordinator(Protocol):
    """What the runtime asks of a coordinator."""

    def replay(self, key: bytes, value: bytes | None, now_ms: int, *, loading: bool) -> None:
        """Take a record in."""

    def next_deadline_ms(self) -> int | None:
        """When ``tick`` has something to do."""

    def tick(self, now_ms: int) -> Effects:
        """Do what is due."""
        ...


class Reply:
    """Waits for the answer to one operation."""

    __slots__ = ("_event", "_response")

    def __init__(self) -> None:
        self._event = trio.Event()
        self._response: Any = None

    def give(self, response: Any) -> None:
        """Answer."""
        self._response = response
        self._event.set()

    async def wait(self) -> Any:
        """The answer, as soon as there is one."""
        if not self._event.is_set():
            await self._event.wait()
        return self._response


class CoordinatorRuntime:
    """One coordinator and the partition its records go to.

    ``append(batch, now_ms)`` writes a batch; KafkaError says that it can't. ``rescheduled`` is
    called whenever the next deadline may have changed.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        append: Callable[[bytearray, int], object],
        now_ms: Callable[[], int],
        rescheduled: Callable[[], None],
    ) -> None:
        self.coordinator = coordinator
        self._append = append
        self._now_ms = now_ms
        self._rescheduled = rescheduled

    def carry_out(self, effects: Effects) -> None:
        """Write, replay and answer; KafkaError, told to everybody, when it can't be written."""
        try:
            if effects.records:
                self._write(effects.records)
        except KafkaError as error:
            for waiter, response in effects.replies:
                waiter.give(as_error(response, error.code))  # type: ignore[attr-defined]
            raise
        for waiter, response in effects.replies:
            waiter.give(response)  # type: ignore[attr-defined]
        self._rescheduled()

    def _write(self, written: list[CoordinatorRecord]) -> None:
        now_ms = self._now_ms()
        builder = BatchBuilder()
        for record in written:
            builder.add(now_ms, record.key, record.value)
        self._append(builder.build(), now_ms)
        for record in written:
            self.coordinator.replay(record.key, record.value, now_ms, loading=False)

    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        deadline = self.coordinator.next_deadline_ms()
        if deadline is not None and deadline <= now_ms:
            self.carry_out(self.coordinator.tick(now_ms))

    async def load(self, batches: Iterable[RecordBatch]) -> None:
        """Replay a partition from its start."""
        now_ms = self._now_ms()
        for number, batch in enumerate(batches):
            if not batch.is_control:
                for record in records(batch):
                    if record.key is not None:
                        self.coordinator.replay(record.key, record.value, now_ms, loading=True)
            if number % BATCHES_PER_TURN == BATCHES_PER_TURN - 1:
                await trio.lowlevel.checkpoint()


def as_error(response: Any, code: ErrorCode) -> Any:
    """A response of the same kind that says an error instead."""
    return type(response)(error_code=code)
