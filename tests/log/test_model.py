"""A log against a list: whatever is done to it, in whatever order, both say the same."""

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
    precondition,
    rule,
    run_state_machine_as_test,
)

from kwire.errors import ErrorCode, KafkaError
from kwire.log.retention import delete_old_segments, remove_doomed
from kwire.log.truncation import truncate_log
from kwire.record.batch import complete_batches

SETTINGS = {
    "segment_bytes": 600,
    "index_interval_bytes": 150,
    "segment_index_bytes": 64,
    "file_delete_delay_ms": 0,
}


class LogModel(RuleBasedStateMachine):
    """``values`` are all that were appended, from ``first`` on; the test sets ``make_tools``."""

    make_tools = None

    @initialize()
    def begin(self):
        """An empty log."""
        self.tools = self.make_tools(Path(tempfile.mkdtemp()))
        self.log = self.tools.open(**SETTINGS)
        self.values: list[bytes] = []
        self.first = 0
        self.sequence = 0

    def teardown(self):
        """Remove the files."""
        if hasattr(self, "tools"):
            for segment in self.log.segments:
                segment.close()
            shutil.rmtree(self.tools.root)

    @rule(count=st.integers(1, 5), size=st.integers(0, 90), codec=st.sampled_from([0, 0, 1]))
    def append(self, count, size, codec):
        """One batch of an idempotent producer."""
        values = [b"%d." % len(self.values) + b"v" * size for _ in range(count)]
        producer = (1, 0, self.sequence)
        offset = self.tools.append(self.log, *values, producer=producer, compression=codec)
        assert offset == len(self.values)
        self.values += values
        self.sequence += count

    @rule(call=st.integers(0, 12), failures=st.integers(1, 2))
    def append_on_a_faulty_disk(self, call, failures):
        """It is there whole, or the client was told and it isn't there."""
        disk = self.tools.disk
        disk.calls, disk.fail_at, disk.failures = 0, call, failures
        value = b"%d.faulty" % len(self.values) + b"f" * 90
        try:
            self.tools.append(self.log, value, producer=(1, 0, self.sequence))
            appended = True
        except KafkaError as error:
            appended = False
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
        disk.fail_at = -1
        if self.log.is_offline:
            self.crash(b"")
            appended = self.log.log_end_offset > len(self.values)
        if appended:
            self.values.append(value)
            self.sequence += 1

    @rule()
    def roll(self):
        """A new segment."""
        self.log.roll(self.tools.now_ms)

    @precondition(lambda self: len(self.values) > self.first)
    @rule(data=st.data())
    def truncate(self, data):
        """Cut at the beginning of a batch, as followers do."""
        starts = [b.base_offset for b in self.tools.batches(self.log)]
        offset = data.draw(st.sampled_from(starts))
        if offset < self.first:
            return
        truncate_log(self.log, offset, self.tools.now_ms, self.tools.disk)
        del self.values[offset:]
        entry = self.log.producers.producers.get(1)
        self.sequence = entry.last_sequence + 1 if entry else 0

    @rule(data=st.data())
    def delete_records(self, data):
        """Move the log start offset and let retention take what it frees."""
        self.first = data.draw(st.integers(self.first, len(self.values)))
        self.log.advance_log_start_offset(self.first)
        delete_old_segments(self.log, self.tools.now_ms, len(self.values), self.tools.disk)
        remove_doomed(self.log, self.tools.now_ms, self.tools.disk)

    @rule()
    def close_and_open(self):
        """A clean stop."""
        self.log.close(self.tools.now_ms)
        self.log = self.tools.open(log_start_offset=self.first, **SETTINGS)

    @rule(tail=st.binary(max_size=100))
    def crash(self, tail):
        """A kill -9, with bytes after the end that nobody was told of."""
        for segment in self.log.segments:
            segment.close()
        with open(self.log.active.path(".log"), "ab") as file:
            file.write(tail)
        self.log = self.tools.open(
            clean=False,
            recovery_point=self.log.recovery_point,
            log_start_offset=self.first,
            **SETTINGS,
        )

    @invariant()
    def same(self):
        """All records are read back, the log knows its bounds and its producer."""
        if not hasattr(self, "tools"):
            return
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.first, len(self.values))
        wanted = list(enumerate(self.values))[self.first :]
        assert self.tools.values(log) == wanted
        entry = log.producers.producers.get(1)
        if entry is not None:
            assert entry.last_sequence == self.sequence - 1
        bases = [segment.base_offset for segment in log.segments]
        assert bases == sorted(set(bases))

    @precondition(lambda self: len(self.values) > self.first)
    @rule(data=st.data(), max_bytes=st.integers(0, 500))
    def read(self, data, max_bytes):
        """From any offset: a batch that holds it, and nothing beyond the end offset."""
        offset = data.draw(st.integers(self.first, len(self.values) - 1))
        got = self.tools.fetch(self.log, offset, max_bytes)
        found = list(complete_batches(got))
        assert found[0].base_offset <= offset <= found[0].last_offset
        assert len(got) <= max(max_bytes, found[0].size_bytes)


@pytest.mark.hypothesis
def test_the_log_is_a_list(make_tools):
    """Appends, reads, rolls, cuts, deletions, faults, stops and crashes in any order."""
    run_state_machine_as_test(
        type("LogModel", (LogModel,), {"make_tools": staticmethod(make_tools)}),
        settings=settings(stateful_step_count=25),
    )
