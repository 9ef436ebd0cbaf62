"""Transactions and timestamps against plain lists: what is open, what was aborted, what is when."""

import shutil
import tempfile
from pathlib import Path

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

from tests.support.log_state import close_files
from tests.support.old_segments import delete_old_segments
from tests.support.time_lookups import max_timestamp, offset_for_timestamp

SETTINGS = {"segment_bytes": 500, "index_interval_bytes": 100, "segment_index_bytes": 96}
PRODUCERS = st.integers(1, 3)


class TransactionsModel(RuleBasedStateMachine):
    """``opened`` and ``aborted`` are what the log should know; the test sets ``make_tools``."""

    make_tools = None

    @initialize()
    def begin(self):
        """An empty log."""
        self.tools = self.make_tools(Path(tempfile.mkdtemp()))
        self.log = self.tools.open(**SETTINGS)
        self.timestamps: list[int] = []
        self.sequences: dict[int, int] = {}
        self.opened: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []

    def teardown(self):
        """Remove the files."""
        if hasattr(self, "tools"):
            close_files(self.log)
            shutil.rmtree(self.tools.root)

    @rule(producer=PRODUCERS, count=st.integers(1, 3), later_ms=st.integers(-20, 20))
    def write(self, producer, count, later_ms):
        """A batch inside of the producer's transaction, which it opens if need be."""
        sequence = self.sequences.get(producer, 0)
        time_ms = self.tools.now_ms + later_ms
        offset = self.tools.append(
            self.log,
            *(b"v" * 30 for _ in range(count)),
            timestamp=time_ms,
            producer=(producer, 0, sequence),
            transactional=True,
        )
        self.opened.setdefault(producer, offset)
        self.sequences[producer] = sequence + count
        self.timestamps += [time_ms] * count

    @rule(producer=PRODUCERS, commit=st.booleans())
    def end(self, producer, commit):
        """A marker; one without a transaction changes nothing."""
        marker_offset = self.log.log_end_offset
        self.tools.append_marker(self.log, self.tools.marker(producer, 0, commit=commit))
        first = self.opened.pop(producer, None)
        if first is not None and not commit:
            self.aborted.append((producer, first, marker_offset))
        self.timestamps.append(self.tools.now_ms)

    @rule(producer=PRODUCERS, batches=st.integers(1, 8), commit=st.booleans())
    def whole_transaction(self, producer, batches, commit):
        """Several batches and their marker."""
        for number in range(batches):
            self.write(producer=producer, count=1, later_ms=number)
        self.end(producer=producer, commit=commit)

    @rule()
    def roll(self):
        """A new segment, and with it a snapshot."""
        self.log.roll(self.tools.now_ms)

    @rule(clean=st.booleans(), flushed=st.booleans())
    def stop_and_open(self, clean, flushed):
        """A clean stop, or a kill -9 with everything or nothing on the disk."""
        if clean:
            self.log.close(self.tools.now_ms)
        elif flushed:
            self.log.flush(self.tools.now_ms)
        close_files(self.log)
        self.log = self.tools.open(
            clean=clean,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.log.log_start_offset,
            **SETTINGS,
        )

    @rule(data=st.data())
    def delete_records(self, data):
        """Up to the oldest open transaction; its segments go."""
        stable = min(self.opened.values(), default=len(self.timestamps))
        offset = data.draw(st.integers(0, stable))
        self.log.advance_log_start_offset(offset)
        delete_old_segments(self.log, self.tools.now_ms, stable, self.tools.disk, self.tools.now_ms)

    @invariant()
    def same_transactions(self):
        """The open ones bound what is stable; the aborted ones are found once, and all of them."""
        if not hasattr(self, "tools"):
            return
        log = self.log
        first = min(self.opened.values(), default=None)
        assert log.first_unstable_offset == first
        stable = len(self.timestamps) if first is None else first
        wanted = [a for a in self.aborted if a[2] >= log.log_start_offset and a[1] < stable]
        got = log.aborted_transactions(log.log_start_offset, stable)
        assert [a[:3] for a in got] == sorted(wanted, key=lambda a: a[1])

    @rule(data=st.data())
    def fetch(self, data):
        """The aborted transactions of a stretch are complete for it."""
        log = self.log
        start = data.draw(st.integers(log.log_start_offset, log.log_end_offset))
        end = data.draw(st.integers(start, log.log_end_offset))
        stable = min(end, *self.opened.values(), log.log_end_offset)
        wanted = {a for a in self.aborted if a[2] >= start and a[1] < stable}
        got = {a[:3] for a in log.aborted_transactions(start, stable)}
        assert wanted == got

    @rule(later_ms=st.integers(-25, 25))
    def search(self, later_ms):
        """The first record with at least a time, and the first of those with the largest."""
        log = self.log
        there = list(enumerate(self.timestamps))[log.log_start_offset :]
        wanted = self.tools.now_ms + later_ms
        found = offset_for_timestamp(log, wanted, end_offset=log.log_end_offset)
        assert (found and found[:2]) == next((r for r in there if r[1] >= wanted), None)
        largest = max(there, key=lambda row: row[1], default=None)
        newest = max_timestamp(log)
        assert (newest and newest[:2]) == largest


@pytest.mark.hypothesis
def test_transactions_and_times_are_lists(make_tools):
    """Transactions, rolls, deletions, stops and crashes in any order."""
    run_state_machine_as_test(
        type("TransactionsModel", (TransactionsModel,), {"make_tools": staticmethod(make_tools)}),
        settings=settings(
            max_examples=max(settings().max_examples // 2, 1), stateful_step_count=30
        ),
    )
