"""A share partition on its leader: which records are in flight for a group, and in which state.

Rules:

- Records in flight are kept as runs: neighbors with the same state, owner, deadline and number of
  deliveries are one run. A run is split only where something happens to a part of it.
- A record is AVAILABLE, ACQUIRED by one member until a deadline, ACKNOWLEDGED, ARCHIVING or
  ARCHIVED. ACKNOWLEDGED and ARCHIVED are final. Only an available record is acquired, and only its
  owner may settle it.
- If the group has a topic for dead letters (KIP-1191), a record that is rejected, or was delivered
  too often, is ARCHIVING until its dead letter is written. It is in flight until then, and its dead
  letter is written only when ARCHIVING is persistent (``take_dead``): so each leader to come knows
  of it.
- An acknowledgement is pending until it is persistent (``commit``). A record with a pending
  acknowledgement is neither acquired nor expired. If it can't be written, ``roll_back`` makes it
  what it was.
- A record whose lock expires, or that is released, is available again. After ``delivery_limit``
  deliveries it is archived instead. A record that a closed session held counts as not delivered.
- The start offset is that of the first record that isn't final, and never moves back. Offsets
  between two runs don't exist in the log, so they are as good as final. After loading, it isn't
  known whether they exist: they are available, and archived when a fetch doesn't find them.
- Changes are written one write after the other (``next_write``): each has all changes since the
  one before. So the start offset that is kept never moves back either.

Source: SharePartition of Kafka.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from kwire.errors import ErrorCode, KafkaError
from kwire.share.dead_letters import DeadLetterQueue, DeadLetters
from kwire.share.key import SharePartitionKey
from kwire.share.run import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    FINAL,
    NEVER_MS,
    Run,
    Transition,
)
from kwire.share.state_batches import RecordState, StateBatch, merge_batches
from kwire.share.state_coordinator import StateWrite

RUNS_PER_LOCK = 4
"""So many runs a share partition may have for each lock: final ones stay while one before isn't."""

NOWHERE = -1
"""Stands for a start offset that is not persistent."""


class Acknowledge(IntEnum):
    """What a member says of a record; Kafka's numbers."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class ShareLimits(NamedTuple):
    """The settings of a group that its share partitions obey; Kafka's defaults."""

    lock_ms: int = 30_000
    delivery_limit: int = 5
    max_locks: int = 2000
    has_dead_letters: bool = False


class AckBatch(NamedTuple):
    """An acknowledgement: one type for all records of a range, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Acquired(NamedTuple):
    """Records that a member has acquired; the delivery is counted."""

    first_offset: int
    last_offset: int
    delivery_count: int


class FetchedBatch(NamedTuple):
    """The offsets of a batch of the log, and whether members may have its records.

    They may not have markers, nor aborted records if the group reads committed records only.
    """

    first_offset: int
    last_offset: int
    is_for_members: bool = True


_last = attrgetter("last")


class SharePartition:
    """The records of one partition that are in flight for one group.

    ``limits`` may change at any time; ``wake_ms`` is no later than the first deadline.
    """

    def __init__(self, key: SharePartitionKey, leader_epoch: int, limits: ShareLimits) -> None:
        self.key = key
        self.leader_epoch = leader_epoch
        self.limits = limits
        self.state_epoch = 0
        self.start_offset = 0
        self.next_new = 0
        """The first offset that has never been in flight."""
        self.wake_ms = NEVER_MS
        self._runs: list[Run] = []
        self._open = 0
        self._available = 0
        self._unwritten: list[StateBatch] = []
        self._in_write: list[StateBatch] = []
        self._dead = DeadLetterQueue()
        self._waiting: list[Transition] = []
        self._written_start = 0

    def load(
        self,
        state_epoch: int,
        start_offset: int,
        batches: Iterable[StateBatch],
        *,
        is_written: bool = True,
    ) -> None:
        """Take over the persistent state; ``is_written`` says whether it has the start offset."""
        self.state_epoch = state_epoch
        self.start_offset = self.next_new = start_offset
        self._written_start = start_offset if is_written else NOWHERE
        self._runs, self._open, self._available = [], 0, 0
        for batch in batches:
            if batch.last_offset < self.next_new:
                continue
            first = max(batch.first_offset, self.next_new)
            if first > self.next_new:
                self._append(Run(self.next_new, first - 1, AVAILABLE, 0))
            state = RecordState(batch.delivery_state)
            state = AVAILABLE if state is ACQUIRED else state
            run = Run(first, batch.last_offset, state, batch.delivery_count)
            self._append(run)
            if state is ARCHIVING:  # the cause isn't persistent; Kafka guesses it like this
                self._dead.due.append(run.dead_letters(run.count < self.limits.delivery_limit))
        self._advance()

    # What there is

    @property
    def runs(self) -> Sequence[Run]:
        """The records in flight, for reading only."""
        return self._runs

    @property
    def in_flight(self) -> int:
        """The number of records that are not final."""
        return self._open

    @property
    def available(self) -> int:
        """The number of records that were in flight and can be acquired again."""
        return self._available

    @property
    def can_acquire(self) -> bool:
        """Whether another record may be acquired, as far as the lock limit goes."""
        return self._available > 0 or self._has_room

    @property
    def _has_room(self) -> bool:
        """Whether a record may be acquired that has never been in flight."""
        return max(self._open, len(self._runs) // RUNS_PER_LOCK) < self.limits.max_locks

    @property
    def next_fetch_offset(self) -> int:
        """The offset from which a fetch finds records to acquire."""
        if self._available:
            for run in self._runs:
                if run.state is AVAILABLE:
                    return run.first
        return self.next_new

    # Acquiring

    def acquire(
        self,
        member: str,
        fetched_from: int,
        batches: Iterable[FetchedBatch],
        max_records: int,
        now_ms: int,
        *,
        batch_size: int = 0,
        is_strict: bool = False,
    ) -> list[Acquired]:
        """Acquire records among those that were fetched.

        ``batches`` are the batches of the log that were read from ``fetched_from`` on; records that
        aren't for members are archived. About ``max_records`` are acquired: the last batch is
        acquired whole, but not if ``is_strict``, nor if it has more records than the lock limit.
        Each result has at most ``batch_size`` records, unless it is one batch of the log.
        """
        acquired: list[Acquired] = []
        deadline_ms = now_ms + self.limits.lock_ms
        left = max_records
        at = fetched_from
        for first, last, is_for_members in batches:
            if first > at:
                self._archive_missing(at, first - 1)
            at = max(last + 1, at)
            if not is_for_members:
                self._archive_missing(first, last)
                self.next_new = max(self.next_new, at)
                continue
            most = left if is_strict else max(left, self.limits.max_locks)
            for found in self._acquirable(max(first, self.start_offset), last, most):
                self._take(found, member, deadline_ms)
                left -= found.size
                _add(acquired, Acquired(found.first, found.last, found.count), batch_size)
            if left <= 0 or self.next_new <= last:  # the lock limit may have left out the batch
                break
        if acquired:
            self.wake_ms = min(self.wake_ms, deadline_ms)
            self._merge(acquired[0].first_offset, acquired[-1].last_offset)
        self._advance()
        return acquired

    def _acquirable(self, first: int, last: int, most: int) -> Iterator[Run]:
        """The available records within a batch of the log, and its new ones; ``most`` altogether.

        Records that were delivered too often are archived. The list of runs may change between two
        results.
        """
        at = first
        while most > 0 and at <= last and at < self.next_new:
            index = self._index(at)
            if index == len(self._runs) or self._runs[index].first > last:
                break
            run = self._runs[index]
            if run.state is AVAILABLE:
                run = self._part(run, at, last)
                if run.count >= self.limits.delivery_limit:
                    self._give_up(run)
                else:
                    run = self._part(run, run.first, run.first + most - 1)
                    most -= run.size
                    yield run
            at = run.last + 1
        if most > 0 and last >= self.next_new and self._has_room:
            begin = max(first, self.next_new)
            new = Run(begin, min(last, begin + most - 1), AVAILABLE, 0)
            self._append(new)
            yield new

    def _take(self, run: Run, member: str, deadline_ms: int) -> None:
        self._change(run, ACQUIRED)
        run.count += 1
        run.member = member
        run.deadline_ms = deadline_ms

    # Settling

    def acknowledge(self, member: str, batches: Iterable[AckBatch], now_ms: int) -> Transition:
        """Acknowledge what a member has acquired; all of it, or nothing after an error.

        The changes count after ``commit``. Raises KafkaError: INVALID_RECORD_STATE for records
        that the member doesn't own, INVALID_REQUEST for records that were never in flight.
        """
        parts: list[tuple[int, int, Acknowledge]] = []
        for batch in batches:
            first = max(batch.first_offset, self.start_offset)  # what lies before is past
            if first <= batch.last_offset:
                self._check_owned(member, first, batch.last_offset)
                parts += self._parts(batch, first)
        transition = Transition()
        for first, last, kind in parts:
            self._split(first)
            self._split(last + 1)
            for run in self._between(first, last):
                if kind is Acknowledge.RENEW:
                    run.deadline_ms = now_ms + self.limits.lock_ms
                else:
                    run.pending = self._outcome(kind, run)
                    run.is_rejected = kind is Acknowledge.REJECT
                    transition.runs.append(run)
        if transition.runs:
            self._waiting.append(transition)
        else:
            transition.end()
        return transition

    def _parts(self, batch: AckBatch, first: int) -> Iterator[tuple[int, int, Acknowledge]]:
        """The parts of a batch with one type each, from an offset on; gaps have none."""
        types, last = batch.types, batch.last_offset
        if len(types) == 1:
            yield first, last, Acknowledge(types[0])
            return
        for run in self._between(first, last):
            at = max(first, run.first)
            begin, end = at - batch.first_offset, min(last, run.last) + 1 - batch.first_offset
            for told, same in groupby(types[begin:end]):
                after = at + sum(1 for _ in same)
                yield at, after - 1, Acknowledge(told)
                at = after

    def _check_owned(self, member: str, first: int, last: int) -> None:
        if last >= self.next_new:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the records were never acquired")
        is_found = False
        for run in self._between(first, last):
            is_found = True
            if run.state is not ACQUIRED or run.member != member or run.pending is not None:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD_STATE,
                    f"the member has not acquired offset {max(first, run.first)}",
                )
        if not is_found:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"offset {first} is not in flight")

    def _outcome(self, kind: Acknowledge, run: Run) -> RecordState:
        if kind is Acknowledge.ACCEPT:
            return ACKNOWLEDGED
        if kind is Acknowledge.RELEASE and run.count < self.limits.delivery_limit:
            return AVAILABLE
        return ARCHIVED if kind is Acknowledge.GAP else self._unwanted

    @property
    def _unwanted(self) -> RecordState:
        """The state of a record that nobody is to get any more."""
        return ARCHIVING if self.limits.has_dead_letters else ARCHIVED

    def commit(self, transitions: Iterable[Transition]) -> bool:
        """The changes have been written; whether records have become available."""
        before = self._available
        self._dead.written()
        for transition in transitions:
            for run in transition.runs:
                new, run.pending = run.pending, None
                if new is not None and self._is_kept(run):
                    self._settle(run, new)
                    if new is ARCHIVING:
                        self._dead.due.append(run.dead_letters(run.is_rejected))
            if transition.runs:
                self._merge(transition.runs[0].first, transition.runs[-1].last)
            transition.end()
        self._in_write = []
        self._advance()
        # The next write must not move the start offset that is kept back again.
        assert self._written_start <= self.start_offset, (self.key, self.start_offset)
        return self._available > before

    def roll_back(self, transitions: Iterable[Transition], error: KafkaError) -> None:
        """The changes could not be written: the members still own the records."""
        self._written_start = NOWHERE
        unwritten: list[StateBatch] = []
        merge_batches(unwritten, [*self._in_write, *self._unwritten], self.start_offset)
        self._in_write, self._unwritten = [], unwritten
        self._dead.not_written()
        for transition in transitions:
            for run in transition.runs:
                run.pending = None
                self.wake_ms = min(self.wake_ms, run.deadline_ms)
            transition.end(error)

    def take_waiting(self) -> list[Transition]:
        """The acknowledgements that no write has yet; they are the caller's to roll back."""
        transitions, self._waiting = self._waiting, []
        return transitions

    def release(self, member: str) -> bool:
        """Make available what a member holds, as not delivered; whether it held anything."""
        before = self._available
        for run in list(self._runs):
            if run.state is ACQUIRED and run.member == member and run.pending is None:
                run.count -= 1
                self._settle(run, AVAILABLE)
                self._unwritten.append(_batch(run, AVAILABLE))
        self._merge(self.start_offset, self.next_new)
        return self._available > before

    def expire(self, now_ms: int) -> bool:
        """End the locks whose time is up; whether records have become available."""
        before = self._available
        self.wake_ms = NEVER_MS
        for run in list(self._runs):
            if run.state is not ACQUIRED or run.pending is not None:
                continue
            if run.deadline_ms > now_ms:
                self.wake_ms = min(self.wake_ms, run.deadline_ms)
                continue
            if run.count < self.limits.delivery_limit:
                self._settle(run, AVAILABLE)
                self._unwritten.append(_batch(run, AVAILABLE))
            else:
                self._give_up(run)
        self._merge(self.start_offset, self.next_new)
        self._advance()
        return self._available > before

    def _give_up(self, run: Run) -> None:
        """Deliver records no more, because they were delivered too often."""
        self._settle(run, self._unwanted)
        self._unwritten.append(_batch(run, run.state))
        if run.state is ARCHIVING:
            self._dead.unwritten.append(run.dead_letters(False))

    def take_dead(self) -> list[DeadLetters]:
        """The records whose dead letters are to be written now; ``archive`` is to follow."""
        return self._dead.take()

    def archive(self, dead: DeadLetters) -> None:
        """Be done with records: their dead letters are written, or can't be."""
        for run in self._between(dead.first_offset, dead.last_offset):
            if run.state is ARCHIVING:
                part = self._part(run, dead.first_offset, dead.last_offset)
                self._settle(part, ARCHIVED)
                self._unwritten.append(_batch(part, ARCHIVED))
        self._merge(dead.first_offset, dead.last_offset)
        self._advance()

    def begin_at(self, offset: int) -> None:
        """Move the start offset, because the log begins later; what lies before is past."""
        if offset <= self.start_offset:
            return
        index = self._index(offset)
        for run in self._runs[:index]:
            self._forget(run)
        del self._runs[:index]
        if self._runs and self._runs[0].first < offset:
            self._forget(self._runs[0])
            self._runs[0].first = offset
            self._count(self._runs[0])
        self.start_offset = offset
        self.next_new = max(self.next_new, offset)
        self._advance()

    # Writing

    @property
    def has_unwritten(self) -> bool:
        """Whether anything waits to be written."""
        return bool(self._waiting or self._unwritten or self.start_offset > self._written_start)

    def next_write(self) -> tuple[StateWrite, list[Transition]]:
        """The write of all changes since the last one, and the transitions that it settles."""
        transitions, self._waiting = self._waiting, []
        self._in_write, self._unwritten = self._unwritten, []
        self._dead.begin_write()
        batches = list(self._in_write)
        for transition in transitions:
            batches += [
                _batch(run, run.pending) for run in transition.runs if run.pending is not None
            ]
        start_offset = self._start_after(transitions)
        settled = [run for one in transitions for run in one.runs if run.last >= self.start_offset]
        closed = sum(run.size for run in settled if run.pending in FINAL)
        complete = max(0, self.next_new - start_offset - (self._open - closed))
        self._written_start = start_offset
        write = StateWrite(self.state_epoch, self.leader_epoch, start_offset, complete, batches)
        return write, transitions

    def _start_after(self, transitions: Iterable[Transition]) -> int:
        """The start offset when these changes are made."""
        written = {id(run) for transition in transitions for run in transition.runs}
        for run in self._runs:
            is_written = id(run) in written
            state = run.pending if is_written and run.pending is not None else run.state
            if state not in FINAL:
                return run.first
        return self.next_new

    # The list of runs

    def _index(self, offset: int) -> int:
        """The index of the run with an offset, or of the first one after it."""
        return bisect_left(self._runs, offset, key=_last)

    def _between(self, first: int, last: int) -> list[Run]:
        found = []
        for index in range(self._index(first), len(self._runs)):
            run = self._runs[index]
            if run.first > last:
                break
            found.append(run)
        return found

    def _split(self, offset: int) -> None:
        """Have a run begin at an offset, if one goes across it."""
        index = self._index(offset)
        if index == len(self._runs) or self._runs[index].first >= offset:
            return
        run = self._runs[index]
        after = Run(offset, run.last, run.state, run.count)
        after.member, after.deadline_ms = run.member, run.deadline_ms
        assert run.pending is None, (self.key, run.first, offset)
        run.last = offset - 1
        self._runs.insert(index + 1, after)

    def _part(self, run: Run, first: int, last: int) -> Run:
        """The part of a run within a range of offsets, which becomes a run of its own."""
        if run.first < first:
            self._split(first)
            run = self._runs[self._index(first)]
        if run.last > last:
            self._split(last + 1)
        return run

    def _append(self, run: Run) -> None:
        self._runs.append(run)
        self.next_new = run.last + 1
        self._count(run)

    def _change(self, run: Run, state: RecordState) -> None:
        self._forget(run)
        run.state = state
        self._count(run)

    def _count(self, run: Run) -> None:
        if run.state is AVAILABLE:
            self._available += run.size
        if run.state not in FINAL:
            self._open += run.size

    def _settle(self, run: Run, state: RecordState) -> None:
        """Have nobody own a run any more."""
        self._change(run, state)
        run.member, run.deadline_ms = "", NEVER_MS

    def _archive_missing(self, first: int, last: int) -> None:
        """Archive available records that a fetch hasn't found in the log."""
        for run in self._between(first, last):
            if run.state is AVAILABLE:
                self._settle(self._part(run, first, last), ARCHIVED)
        self._merge(first, last)

    def _forget(self, run: Run) -> None:
        """Don't count a run any more."""
        if run.state is AVAILABLE:
            self._available -= run.size
        if run.state not in FINAL:
            self._open -= run.size

    def _is_kept(self, run: Run) -> bool:
        index = self._index(run.first)
        return index < len(self._runs) and self._runs[index] is run

    def _merge(self, first: int, last: int) -> None:
        """Make one run of neighbors that are alike, around a range of offsets."""
        begin = max(0, self._index(first) - 1)
        end = min(len(self._runs), self._index(last) + 2)
        merged: list[Run] = []
        for run in self._runs[begin:end]:
            before = merged[-1] if merged else None
            if before is not None and before.last + 1 == run.first and before.is_like(run):
                before.last = run.last
            else:
                merged.append(run)
        if len(merged) < end - begin:
            self._runs[begin:end] = merged

    def _advance(self) -> None:
        """Move the start offset to the first record that isn't final."""
        done = 0
        for run in self._runs:
            if run.state not in FINAL:
                break
            done += 1
        del self._runs[:done]
        self.start_offset = self._runs[0].first if self._runs else self.next_new


def _batch(run: Run, state: RecordState) -> StateBatch:
    return StateBatch(run.first, run.last, state, run.count)


def _add(acquired: list[Acquired], new: Acquired, batch_size: int) -> None:
    """Add to the last result if it is a neighbor and stays small enough."""
    if acquired:
        last = acquired[-1]
        if (
            last.last_offset + 1 == new.first_offset
            and last.delivery_count == new.delivery_count
            and new.last_offset - last.first_offset < batch_size
        ):
            acquired[-1] = last._replace(last_offset=new.last_offset)
            return
    acquired.append(new)
