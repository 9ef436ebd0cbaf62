"""A share partition against a model that has every record apart.

Promises: no record has two owners at a time; what was acknowledged and written is never delivered
again, also not by a later leader; nobody gets a record more often than the limit says; and the runs
say of each offset what the model says.

With dead letters, a record that nobody is to get is ARCHIVING until its dead letter is written.
That begins when it is persistent, so that every leader to come knows of it, and happens to each.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kwire.errors import ErrorCode, KafkaError
from kwire.share.dead_letters import DeadLetters
from kwire.share.key import SharePartitionKey
from kwire.share.partition import (
    RUNS_PER_LOCK,
    AckBatch,
    Acknowledge,
    Acquired,
    FetchedBatch,
    ShareLimits,
    SharePartition,
)
from kwire.share.run import ACKNOWLEDGED, ACQUIRED, ARCHIVED, ARCHIVING, AVAILABLE, FINAL
from kwire.share.state_batches import merge_batches

KEY = SharePartitionKey("workers", bytes(16), 0)
LIMITS = ShareLimits(lock_ms=5, delivery_limit=2, max_locks=20)
MEMBERS = st.sampled_from(["a", "b", "c"])


class Known:
    """What the model knows of a record."""

    def __init__(self, count: int = 0) -> None:
        self.state, self.owner, self.deadline_ms, self.count = AVAILABLE, "", 0, count
        self.pending = None


class Model(RuleBasedStateMachine):
    """Members acquire and acknowledge the records of a log that grows and is cut."""

    limits, unwanted = LIMITS, ARCHIVED

    def __init__(self) -> None:
        super().__init__()
        self.partition = SharePartition(KEY, 0, self.limits)
        self.dead: list[DeadLetters] = []
        self.persisted_dead: set[int] = set()
        self.partition.load(0, 0, [])
        self.log: list[FetchedBatch] = []
        self.end = self.log_start = self.now_ms = 0
        self.known: dict[int, Known] = {}
        self.persisted, self.persisted_start = [], 0
        self.settled: set[int] = set()
        self.writing = None

    @rule(size=st.integers(1, 6), gap=st.sampled_from([0, 0, 0, 1, 3]), marks=st.booleans())
    def append(self, size, gap, marks):
        first = self.end + gap
        self.log.append(FetchedBatch(first, first + size - 1, not (marks and size == 1)))
        self.end = first + size

    @rule(
        member=MEMBERS,
        most=st.integers(1, 9),
        read=st.integers(1, 4),
        is_strict=st.booleans(),
        batch_size=st.integers(0, 5),
    )
    def acquire(self, member, most, read, is_strict, batch_size):
        at = self.partition.next_fetch_offset
        found = [batch for batch in self.log if batch.last_offset >= max(at, self.log_start)][:read]
        if not found or not self.partition.can_acquire:
            return
        acquired = self.partition.acquire(
            member, at, found, most, self.now_ms, batch_size=batch_size, is_strict=is_strict
        )
        offsets = []
        for one in acquired:
            for offset in range(one.first_offset, one.last_offset + 1):
                offsets.append(offset)
                known = self.known.setdefault(offset, Known())
                assert known.state is AVAILABLE, offset
                assert offset not in self.settled
                known.state, known.owner = ACQUIRED, member
                known.deadline_ms = self.now_ms + LIMITS.lock_ms
                known.count += 1
                assert known.count == one.delivery_count <= LIMITS.delivery_limit
        assert len(offsets) == len(set(offsets))
        in_log = {o for first, last, has in found if has for o in range(first, last + 1)}
        assert set(offsets) <= in_log
        if is_strict:
            assert len(offsets) <= most
        self._forget_missing(at, found)

    def _forget_missing(self, at, found):
        """What a fetch didn't find between two batches doesn't exist."""
        for run in self.partition.runs:
            for offset in range(run.first, run.last + 1):
                known = self.known.setdefault(offset, Known())
                if run.state is ARCHIVED and known.state is AVAILABLE:
                    exists = any(a <= offset <= b for a, b, has in self.log if has)
                    assert not exists or known.count >= LIMITS.delivery_limit, offset
                    known.state = ARCHIVED

    @precondition(lambda self: self._owned())
    @rule(data=st.data(), kind=st.sampled_from(list(Acknowledge)))
    def acknowledge(self, data, kind):
        first = data.draw(st.sampled_from(self._owned()))
        owner, last = self.known[first].owner, first
        while last + 1 in self._owned() and self.known[last + 1].owner == owner:
            last += 1
        last = data.draw(st.integers(first, last))
        types = [kind] * (last - first + 1) if data.draw(st.booleans()) else [kind]
        self.partition.acknowledge(owner, [AckBatch(first, last, types)], self.now_ms)
        for offset in range(first, last + 1):
            known = self.known[offset]
            if kind is Acknowledge.RENEW:
                known.deadline_ms = self.now_ms + LIMITS.lock_ms
            elif kind is Acknowledge.ACCEPT:
                known.pending = ACKNOWLEDGED
            elif kind is Acknowledge.RELEASE and known.count < LIMITS.delivery_limit:
                known.pending = AVAILABLE
            else:
                known.pending = ARCHIVED if kind is Acknowledge.GAP else self.unwanted

    def _owned(self):
        start = self.partition.start_offset
        return [
            offset
            for offset, one in sorted(self.known.items())
            if one.state is ACQUIRED and one.pending is None and offset >= start
        ]

    @precondition(lambda self: self.writing is None and self.partition.has_unwritten)
    @rule()
    def begin_write(self):
        before = [one for one in self.known.items() if one[1].pending is not None]
        self.writing = (*self.partition.next_write(), before)

    @precondition(lambda self: self.writing is not None)
    @rule(is_written=st.booleans())
    def end_write(self, is_written):
        """Anything but another write may have happened since it began."""
        (wanted, transitions, before), self.writing = self.writing, None
        if not is_written:
            error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self.partition.roll_back(transitions, error)
        else:
            assert wanted.start_offset >= self.persisted_start
            self.persisted_start = wanted.start_offset
            merge_batches(self.persisted, wanted.batches, wanted.start_offset)
            self.persisted_dead |= _offsets(wanted.batches, ARCHIVING)
            self.partition.commit(transitions)
        for offset, known in before:
            new, known.pending = known.pending, None
            if is_written:
                known.state, known.owner = new, ""
                if new is not AVAILABLE:
                    self.settled.add(offset)

    @rule(after_ms=st.integers(1, 12))
    def expire(self, after_ms):
        self.now_ms += after_ms
        self.partition.expire(self.now_ms)
        for known in self.known.values():
            is_held = known.state is ACQUIRED and known.pending is None
            if is_held and known.deadline_ms <= self.now_ms:
                is_last = known.count >= LIMITS.delivery_limit
                known.state, known.owner = self.unwanted if is_last else AVAILABLE, ""

    @rule()
    def write_dead_letters(self):
        """Only of records that every leader to come knows as dead."""
        for one in self.partition.take_dead():
            self.dead.append(one)
            offsets = set(range(one.first_offset, one.last_offset + 1))
            assert {o for o in offsets if o >= self.log_start} <= self.persisted_dead

    @precondition(lambda self: self.dead)
    @rule(data=st.data())
    def end_dead_letters(self, data):
        one = self.dead.pop(data.draw(st.integers(0, len(self.dead) - 1)))
        self.partition.archive(one)
        for offset in range(one.first_offset, one.last_offset + 1):
            if offset in self.known:
                assert self.known[offset].state in (ARCHIVING, *FINAL), offset
                self.known[offset].state = ARCHIVED

    @rule(member=MEMBERS)
    def release(self, member):
        self.partition.release(member)
        for known in self.known.values():
            if known.state is ACQUIRED and known.owner == member and known.pending is None:
                known.state, known.owner = AVAILABLE, ""
                known.count -= 1

    @rule(by=st.integers(1, 5))
    def delete_records(self, by):
        self.log_start = min(self.log_start + by, self.end)
        self.partition.begin_at(self.log_start)
        for offset in [o for o in self.known if o < self.log_start]:
            self.settled.discard(offset)
            if self.known[offset].pending is None:
                del self.known[offset]

    @rule(is_written=st.booleans())
    def another_leader(self, is_written):
        """It knows what was written; what was acquired is available, as far as it was counted.

        A write on its way, of which no member was told yet, may have arrived.
        """
        if self.writing is not None and is_written:
            wanted = self.writing[0]
            self.persisted_start = wanted.start_offset
            merge_batches(self.persisted, wanted.batches, wanted.start_offset)
            self.persisted_dead |= _offsets(wanted.batches, ARCHIVING)
        self.writing, self.dead = None, []
        self.partition = SharePartition(KEY, 0, self.limits)
        self.partition.load(0, self.persisted_start, self.persisted)
        self.partition.begin_at(self.log_start)
        self.known = {}
        for run in self.partition.runs:
            for offset in range(run.first, run.last + 1):
                self.known[offset] = Known(run.count)
                self.known[offset].state = run.state
                assert run.state in (AVAILABLE, self.unwanted, *FINAL)
                assert run.state is not AVAILABLE or offset not in self.settled

    def teardown(self):
        """In the end, every dead letter is written."""
        if self.writing is not None:
            self.end_write(True)
        self.dead += self.partition.take_dead()
        while self.partition.has_unwritten or self.dead:
            for one in self.dead:
                self.partition.archive(one)
            if self.partition.has_unwritten:
                self.partition.commit(self.partition.next_write()[1])
            self.dead = self.partition.take_dead()
        assert not any(run.state is ARCHIVING for run in self.partition.runs)

    @invariant()
    def the_runs_are_the_model(self):
        runs = self.partition.runs
        at = self.partition.start_offset
        is_open = available = 0
        for run in runs:
            assert at <= run.first <= run.last < self.partition.next_new
            at = run.last + 1
            for offset in range(run.first, run.last + 1):
                known = self.known[offset]
                told = (run.state, run.member, run.pending)
                assert told == (known.state, known.owner, known.pending), offset
                is_open += run.state not in FINAL
                available += run.state is AVAILABLE
                assert run.state in FINAL or run.count == known.count
                if run.state is ACQUIRED:
                    assert run.deadline_ms == known.deadline_ms
                    assert run.pending is not None or self.partition.wake_ms <= run.deadline_ms
        assert self.partition.in_flight == is_open
        assert self.partition.available == available
        assert not runs or runs[0].state not in FINAL


class ModelWithDeadLetters(Model):
    """The group has a topic for dead letters."""

    limits, unwanted = LIMITS._replace(has_dead_letters=True), ARCHIVING


def _offsets(batches, state):
    return {o for one in batches if one[2] == state for o in range(one[0], one[1] + 1)}


Model.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
ModelWithDeadLetters.TestCase.settings = Model.TestCase.settings
test_a_share_partition_is_its_model = Model.TestCase
test_a_share_partition_with_dead_letters_is_its_model = ModelWithDeadLetters.TestCase


@pytest.mark.parametrize("is_written", [True, False])
def test_members_acquire_and_locks_expire_while_an_acknowledgement_is_written(is_written):
    """The coordinator may be another broker, or wait for its followers."""
    partition = SharePartition(KEY, 0, LIMITS)
    partition.load(0, 0, [])
    partition.acquire("a", 0, [FetchedBatch(0, 4)], 9, 0)
    partition.acknowledge("a", [AckBatch(0, 4, [Acknowledge.ACCEPT])], 0)
    wanted, transitions = partition.next_write()
    assert (wanted.start_offset, partition.start_offset) == (5, 0)
    assert partition.acquire("b", 5, [FetchedBatch(5, 9)], 9, 1)
    partition.expire(1 + LIMITS.lock_ms)
    assert [(run.first, run.state) for run in partition.runs] == [(0, ACQUIRED), (5, AVAILABLE)]
    if is_written:
        partition.commit(transitions)
    else:
        partition.roll_back(transitions, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert partition.start_offset == (5 if is_written else 0)
    assert partition.has_unwritten


def test_what_is_final_takes_no_more_runs_than_the_limit():
    """A member that keeps the first record accepts and rejects the others in turn."""
    partition = SharePartition(KEY, 0, LIMITS)
    partition.load(0, 0, [])
    most, at = RUNS_PER_LOCK * LIMITS.max_locks, 0
    partition.acquire("a", 0, [FetchedBatch(0, 0)], 1, 0)
    while partition.can_acquire:
        at += 1
        [one] = partition.acquire("a", at, [FetchedBatch(at, at)], 1, 0)
        kind = Acknowledge.ACCEPT if at % 2 else Acknowledge.REJECT
        partition.acknowledge("a", [AckBatch(at, at, [kind])], 0)
        partition.commit(partition.next_write()[1])
        assert one.first_offset == at < 2 * most
    assert len(partition.runs) == most
    partition.acknowledge("a", [AckBatch(0, 0, [Acknowledge.ACCEPT])], 0)
    partition.commit(partition.next_write()[1])
    assert not partition.runs
    assert partition.can_acquire


def test_a_giant_batch_is_acquired_up_to_the_lock_limit():
    partition = SharePartition(KEY, 0, LIMITS)
    partition.load(0, 0, [])
    giant = [FetchedBatch(0, 1_000_000)]
    assert partition.acquire("a", 0, giant, 5, 0) == [Acquired(0, LIMITS.max_locks - 1, 1)]
    assert not partition.can_acquire
    partition.acknowledge("a", [AckBatch(0, 9, [Acknowledge.ACCEPT])], 0)
    partition.commit(partition.next_write()[1])
    assert partition.next_fetch_offset == LIMITS.max_locks
    assert partition.acquire("a", LIMITS.max_locks, giant, 5, 0)


def test_an_acknowledgement_is_checked_before_its_types_are():
    """Types for records that the member doesn't own cost nothing; those of a gap are ignored."""
    partition = SharePartition(KEY, 0, LIMITS)
    partition.load(0, 0, [])
    partition.acquire("a", 0, [FetchedBatch(0, 1), FetchedBatch(5, 6)], 9, 0)

    class Unread(list):
        def __getitem__(self, key):
            raise AssertionError("it was read")

    for member, last, code in (
        ("a", 1 << 40, ErrorCode.INVALID_REQUEST),
        ("b", 6, ErrorCode.INVALID_RECORD_STATE),
    ):
        with pytest.raises(KafkaError) as refused:
            partition.acknowledge(member, [AckBatch(0, last, Unread([1, 1]))], 0)
        assert refused.value.code == code
    partition.acknowledge("a", [AckBatch(0, 6, [1, 2, 0, 1, 2, 2, 1])], 0)
    partition.commit(partition.next_write()[1])
    assert [(one.first, one.last, one.state) for one in partition.runs] == [
        (1, 1, AVAILABLE),
        (5, 5, AVAILABLE),
        (6, 6, ACKNOWLEDGED),
    ]


def test_what_a_failed_write_had_is_in_the_next_one():
    partition = SharePartition(KEY, 0, LIMITS)
    partition.load(0, 0, [])
    partition.acquire("a", 0, [FetchedBatch(0, 1)], 9, 0)
    partition.expire(LIMITS.lock_ms)
    first, transitions = partition.next_write()
    assert first.batches
    partition.roll_back(transitions, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert list(partition.next_write()[0].batches) == list(first.batches)
