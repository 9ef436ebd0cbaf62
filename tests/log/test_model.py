"""Logs against lists: whatever is done to them and whatever dies meanwhile, both say the same.

Promises: what was acknowledged is there after the death of the process, what was flushed after the
death of the machine, once and in order; nothing else appears, but for one batch at the end whose
append died. All that is kept beside the records is what the records say. A disk that fails makes
errors, KAFKA_STORAGE_ERROR to clients, and no damage.
"""

import errno
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from kwire.log.retention import Clocks
from kwire.log.validation import AppendOrigin
from kwire.record.batch import complete_batches
from tests.log.conftest import LogTools
from tests.log.history import Batch, Sequence
from tests.log.logs_on_machine import CONFIGS, HOUR_MS, LogsOnMachine
from tests.support.log_state import base_offsets

KEYS = st.sampled_from(sorted(CONFIGS))
IDEMPOTENT = st.sampled_from([None, 1, 2])
TRANSACTIONAL = st.sampled_from([11, 12])
PERCENT = st.integers(0, 100)
ERRORS = st.sampled_from([errno.EIO, errno.ENOSPC])
POWER = st.none() | st.integers(0, 1 << 32).map(Random)


class LogModel(RuleBasedStateMachine):
    """Two partitions of a manager on a machine that can fail."""

    @initialize()
    def begin(self):
        """Two empty logs."""
        self.tools = LogTools(Path())
        self.logs = LogsOnMachine(self.tools.now_ms)
        self.records = 0

    def teardown(self):
        """Remove the files."""
        if hasattr(self, "logs"):
            self.logs.end()

    def rows(self, count, size, later_ms):
        """Records nobody has written yet."""
        self.records += count
        return [
            (
                self.logs.now_ms + later_ms + n,
                b"k",
                b"%d." % (self.records + n) + b"v" * min(size, 500 // count),
            )
            for n in range(count)
        ]

    def produce(self, key, producer, rows, codec, transactional):
        """Append a batch as a producer would send it next."""
        found = self.logs.there(key)
        if found is None:
            return
        log, history = found
        sequence = None if producer is None else history.following(producer, log)
        data = self.tools.batch_of(rows, codec, sequence, transactional)
        batch = Batch(history.end, rows, history.leader_epoch, sequence, transactional)
        self.logs.write(key, data, batch)

    @rule(
        key=KEYS,
        producer=IDEMPOTENT,
        count=st.integers(1, 4),
        size=st.sampled_from([0, 20, 90, 400]),
        codec=st.integers(0, 4),
        later_ms=st.integers(-20, 20),
    )
    def append(self, key, producer, count, size, codec, later_ms):
        """A batch, of an idempotent producer or of another."""
        self.produce(key, producer, self.rows(count, size, later_ms), codec, False)

    @rule(key=KEYS, producer=TRANSACTIONAL, count=st.integers(1, 3), later_ms=st.integers(-20, 20))
    def append_in_transaction(self, key, producer, count, later_ms):
        """A batch inside of the producer's transaction, which it opens if need be."""
        self.produce(key, producer, self.rows(count, 30, later_ms), 0, True)

    @rule(key=KEYS, producer=TRANSACTIONAL, commit=st.booleans())
    def end_transaction(self, key, producer, commit):
        """A marker; one without a transaction changes nothing."""
        found = self.logs.there(key)
        if found is None:
            return
        log, history = found
        epoch = max(history.epoch_of(producer, log), 0)
        rows = [(self.tools.now_ms, None, None)]
        sequence = Sequence(producer, epoch, -1)
        batch = Batch(history.end, rows, history.leader_epoch, sequence, True, commit)
        marker = self.tools.marker(producer, epoch, commit=commit)
        self.logs.write(key, marker, batch, AppendOrigin.COORDINATOR)

    @rule(key=KEYS, producer=st.sampled_from([1, 2, 11]))
    def append_again(self, key, producer):
        """A producer's last batch sent again is answered with the offset it has."""
        history = self.logs.histories.get(key)
        last = history and history.last_of(producer)
        if not last or last.first < base_offsets(self.logs.manager.logs[key])[0]:
            return
        if producer in history.unsure:
            return
        data = self.tools.batch_of(last.rows, 0, last.producer, last.transactional)
        info = self.logs.attempt(
            lambda: self.logs.manager.logs[key].append(
                data, leader_epoch=history.leader_epoch, now_ms=self.logs.now_ms
            )
        )
        assert info is None or (info.is_duplicate and info.first_offset == last.first)

    @rule(key=KEYS)
    def roll(self, key):
        """A new segment."""
        if key in self.logs.histories:
            self.logs.attempt(lambda: self.logs.manager.logs[key].roll(self.logs.now_ms))

    @rule(key=KEYS)
    def flush(self, key):
        """All of it survives the death of the machine."""
        if key not in self.logs.histories:
            return
        log = self.logs.manager.logs[key]
        self.logs.attempt(lambda: log.flush(self.logs.now_ms))
        if not self.logs.failed and log is self.logs.manager.logs.get(key):
            assert log.recovery_point == log.log_end_offset

    @rule()
    def checkpoint(self):
        """Rolled segments are flushed, offsets noted; then log start offsets are sure."""
        histories = dict(self.logs.histories)
        if self.logs.attempt(lambda: self.logs.manager.checkpoint(dict)):
            for history in histories.values():
                history.sure_start = history.start

    @rule(key=KEYS, new_epoch=st.integers(1, 2))
    def elect(self, key, new_epoch):
        """The next batches are of another leader epoch."""
        if key in self.logs.histories:
            self.logs.histories[key].leader_epoch += new_epoch

    @rule(key=KEYS, part=PERCENT)
    def delete_records(self, key, part):
        """The log start offset moves, and that is noted before it is told."""
        history = self.logs.histories.get(key)
        if history is None:
            return
        log = self.logs.manager.logs[key]
        offset = history.start + (history.end - history.start) * part // 100
        history.start_limit = max(history.start_limit, offset)
        self.logs.attempt(lambda: log.advance_log_start_offset(offset))
        if log is self.logs.manager.logs.get(key):
            history.start = log.log_start_offset
            self.checkpoint()

    @rule(key=KEYS, part=PERCENT)
    def truncate(self, key, part):
        """Cut at the beginning of a batch, as followers do."""
        history = self.logs.histories.get(key)
        if history is None:
            return
        starts = [b.first for b in history.batches if b.first >= history.start] or [history.end]
        self.logs.truncate(key, starts[(len(starts) - 1) * part // 100])

    @rule(hours=st.integers(0, 30))
    def housekeeping(self, hours):
        """Time passes; retention deletes old segments, and the files of those deleted before."""
        self.logs.now_ms += hours * HOUR_MS
        for history in self.logs.histories.values():
            history.start_limit = history.end
        manager = self.logs.manager
        self.logs.attempt(
            lambda: list(
                manager.retain(
                    Clocks(lambda: self.logs.now_ms, lambda: self.logs.now_ms, lambda: lambda _: 0),
                    lambda key: manager.logs[key].log_end_offset,
                )
            )
        )
        if self.logs.manager is manager:
            self.logs.attempt(lambda: manager.remove_doomed(self.logs.now_ms))
        self.logs.learn_starts(manager)

    @rule(key=KEYS)
    def delete_topic(self, key):
        """The partition goes; the next use makes it anew, for another topic."""
        history = self.logs.histories.get(key)
        if history is None:
            return
        history.deleting = True
        name, partition = key
        self.logs.attempt(lambda: self.logs.manager.delete(name, partition, self.logs.now_ms))
        if key not in self.logs.manager.logs:
            self.logs.histories.pop(key, None)

    @rule(calls=st.integers(0, 80), failures=st.integers(1, 3), error=ERRORS)
    def plan_errors(self, calls, failures, error):
        """Some later calls of the disk fail."""
        self.logs.machine.disk.fail(calls, failures, error)

    @rule(calls=st.integers(0, 80), written=st.sampled_from([0.0, 0.5, 0.99]), power=POWER)
    def plan_a_death(self, calls, written, power):
        """In a later call of the disk the process dies, or the machine."""
        self.logs.power = power
        self.logs.machine.disk.die(calls, written)

    @rule(power=POWER)
    def die(self, power):
        """The process dies between two operations, or the machine."""
        self.logs.restart(power)

    @rule()
    def stop_and_start(self):
        """A clean stop, if nothing fails."""
        self.logs.stop_and_start()

    @rule(key=KEYS, part=PERCENT, max_bytes=st.integers(0, 900), bound=PERCENT)
    def read(self, key, part, max_bytes, bound):
        """From any offset to any other: a batch that holds it, and nothing beyond the end."""
        history = self.logs.histories.get(key)
        if history is None or history.end == history.start:
            return
        length = history.end - history.start
        offset = history.start + (length - 1) * part // 100
        end = offset + (history.end - offset) * bound // 100
        log = self.logs.manager.logs[key]
        got = self.logs.attempt(lambda: self.tools.fetch(log, offset, max_bytes, end_offset=end))
        wanted = next((b for b in history.batches if b.end > offset), None)
        if got:
            found = list(complete_batches(got))
            assert found[0].base_offset == wanted.first
            assert found[-1].next_offset <= end
            assert len(got) <= max(max_bytes, found[0].size_bytes)
        elif got is not None:
            assert wanted is None or wanted.end > end

    @rule(key=KEYS, later_ms=st.integers(-25, 25))
    def search(self, key, later_ms):
        """By time."""
        history = self.logs.histories.get(key)
        if history is None:
            return
        log = self.logs.manager.logs[key]
        self.logs.attempt(lambda: history.check_times(log, self.logs.now_ms + later_ms))

    @invariant()
    def same(self):
        """Files, indexes and memory say what the history says."""
        if hasattr(self, "logs"):
            self.logs.check()


@pytest.mark.hypothesis
def test_logs_are_lists():
    """Whatever is done, and whatever fails and dies, in any order."""
    run_state_machine_as_test(LogModel, settings=settings(stateful_step_count=30))
