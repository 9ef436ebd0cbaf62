"""Compaction against a dict: whatever is written and whenever it is cleaned, by whoever reads it.

The model is a list of all records that were ever committed. After each clean what is there must be

- nothing that was not written, at its own offset and with its own key, value and timestamp;
- every record that is the last of its key, tombstones apart, once they are old enough;
- of what was cleaned nothing else: no record with a later one of its key, none that was aborted.
"""

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from kwire.log.compaction.local import run_clean
from kwire.log.truncation import truncate_log
from kwire.record.records import records
from tests.support.log_state import close_files

KEYS = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.one_of(st.none(), st.text("xyz", min_size=1, max_size=30))
PRODUCERS = st.integers(1, 2)


class CompactionModel(RuleBasedStateMachine):
    """``written`` is offset → (key, value, timestamp); ``aborted`` are offsets that don't count."""

    make_tools = new_compaction = crashing_disk = None

    @initialize(
        segment_bytes=st.sampled_from([300, 700, 2000]),
        map_entries=st.sampled_from([2, 4, 1000]),
    )
    def begin(self, segment_bytes, map_entries):
        """An empty log; a small map makes for many small cleans."""
        self.tools = self.make_tools(Path(tempfile.mkdtemp()))
        self.c = self.new_compaction(
            self.tools,
            {"segment_bytes": segment_bytes, "min_cleanable_dirty_ratio": 0.0},
            map_bytes=24 * map_entries,
        )
        self.written = {}
        self.aborted = set()
        self.open = {}
        self.sequences = {}

    def teardown(self):
        """Remove the files."""
        if hasattr(self, "tools"):
            close_files(self.c.log)
            self.tools.disk.remove_tree(self.tools.root)

    def _write(self, items, **options):
        timestamp = self.c.now_ms
        first = self.c.put_batch(items, **options)
        offsets = range(first, first + len(items))
        for offset, (key, value) in zip(offsets, items, strict=True):
            self.written[offset] = (key, value, timestamp)
        return offsets

    @rule(
        items=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4),
        compression=st.integers(0, 4),
    )
    def put(self, items, compression):
        """A batch of a plain producer."""
        self._write(items, compression=compression)

    @rule(producer=PRODUCERS, items=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3))
    def put_in_transaction(self, producer, items):
        """A batch within a transaction, which it opens if need be."""
        sequence = self.sequences.get(producer, 0)
        offsets = self._write(items, producer=(producer, 0, sequence), transactional=True)
        self.sequences[producer] = sequence + len(items)
        self.open.setdefault(producer, set()).update(offsets)

    @rule(producer=PRODUCERS, commit=st.booleans())
    def end(self, producer, commit):
        """A marker, where there is a transaction."""
        if producer in self.open:
            offsets = self.open.pop(producer)
            self.aborted |= set() if commit else offsets
            self.c.end(producer, commit=commit)

    @rule()
    def roll(self):
        """A new segment."""
        self.c.log.roll(self.c.now_ms)

    @rule(later_ms=st.sampled_from([1, 500, 1000]))
    def wait(self, later_ms):
        """Let time pass: delete.retention.ms is 1000."""
        self.c.now_ms += later_ms

    @rule()
    def compact(self):
        """One clean, and a look at what it left."""
        self.c.log.roll(self.c.now_ms)
        if self.c.compact(roll=False) is not None:
            self._check()

    @rule(crash_at=st.integers(0, 40))
    def compact_and_crash(self, crash_at):
        """A clean that doesn't live to see its end."""
        self.c.log.roll(self.c.now_ms)
        disk = self.crashing_disk(crash_at)
        self.c.begin(disk)
        clean = self.c.next_clean()
        if clean is None:
            self.c.begin()
            return
        with suppress(disk.Crash):
            run_clean(self.c.manager, clean, disk, self.c.now_ms)
        self.c.reopen()
        self._check()

    @rule(clean=st.booleans())
    def stop_and_open(self, clean):
        """A clean stop, or a kill -9."""
        self.c.reopen(clean=clean)
        self._check()

    @rule(data=st.data())
    def delete_records(self, data):
        """Readers don't see what lies before."""
        end = min([min(o) for o in self.open.values()], default=self.c.log.log_end_offset)
        self.c.log.advance_log_start_offset(data.draw(st.integers(0, end)))

    @rule(data=st.data())
    def truncate(self, data):
        """As a follower does; only where no transaction is touched, for simplicity.

        A batch goes as a whole: a cut in its middle also removes its records before the cut. What
        the log held before that batch is all that it has to hold from now on: a value may have been
        cleaned away for the sake of a later one, and the cut may have removed the later one.
        """
        log = self.c.log
        start = max(self._stable_after(), log.log_start_offset)
        offset = data.draw(st.integers(start, max(start, log.log_end_offset)))
        if offset < log.log_end_offset and not self.open:
            batches = self.tools.batches(log)
            cut = min((b.base_offset for b in batches if b.next_offset > offset), default=offset)
            kept = {o: row for o, row in self._found().items() if o < cut}
            truncate_log(log, offset, self.c.now_ms, self.tools.disk, self.c.now_ms)
            self.c.manager.write_checkpoints()
            assert self._found() == kept
            self.written = kept

    def _stable_after(self):
        """The offset after the last batch of any transaction."""
        batches = self.tools.batches(self.c.log)
        return max((b.next_offset for b in batches if b.is_transactional), default=0)

    def _found(self):
        """What a consumer reads: offset → (key, value, timestamp), markers left out."""
        found = {}
        for batch in self.tools.batches(self.c.log):
            if not batch.is_control:
                for record in records(batch):
                    key, value = record.key.decode(), record.value
                    text = None if value is None else value.decode()
                    found[record.offset] = (key, text, record.timestamp)
        return {o: row for o, row in found.items() if o >= self.c.log.log_start_offset}

    def _check(self):
        log, start = self.c.log, self.c.log.log_start_offset
        found = self._found()
        assert found.items() <= self.written.items()
        last = self._last_offsets()
        for key, offset in last.items():
            if offset >= start and self.written[offset][1] is not None:
                assert found.get(offset) == self.written[offset], key
        cleaned_to = log.first_dirty_offset
        last_cleaned = self._last_offsets(cleaned_to)
        for offset in found:
            if offset < cleaned_to:
                assert offset not in self.aborted
                assert offset >= last_cleaned[self.written[offset][0]]

    def _last_offsets(self, end=1 << 62):
        undecided = set().union(*self.open.values())
        last = {}
        for offset, (key, _, _) in self.written.items():
            if offset < end and offset not in self.aborted and offset not in undecided:
                last[key] = offset
        return last


@pytest.mark.hypothesis
def test_compaction_against_a_dict(make_tools, new_compaction, crashing_disk):
    """Writes, transactions, cleans, crashes, stops and cuts in any order."""
    tools = {
        "make_tools": staticmethod(make_tools),
        "new_compaction": staticmethod(new_compaction),
        "crashing_disk": staticmethod(crashing_disk),
    }
    run_state_machine_as_test(
        type("CompactionModel", (CompactionModel,), tools),
        settings=settings(
            max_examples=max(settings().max_examples // 2, 1), stateful_step_count=30
        ),
    )
