"""A compacted log against a list, on a machine that can fail: every key keeps its last value."""

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

from kwire.log.compaction.local import run_clean
from kwire.log.compaction.manager import CompactionManager, CompactionSettings
from kwire.log.log_config import LogConfig
from tests.log.conftest import LogTools
from tests.log.history import Batch
from tests.log.logs_on_machine import COMMON, LogsOnMachine

KEY = ("c", 0)
CONFIG = LogConfig(**COMMON, compact=True, delete=False, min_cleanable_dirty_ratio=0.01)
POWER = st.none() | st.integers(0, 1 << 32).map(Random)


class CompactionModel(RuleBasedStateMachine):
    """One partition; keys are few, so that there is something to clean."""

    @initialize()
    def begin(self):
        """An empty log."""
        self.tools = LogTools(Path())
        self.logs = LogsOnMachine(self.tools.now_ms, {KEY: CONFIG})
        self.history.is_compacted = self.history.has_gaps = True
        self.records = 0

    def teardown(self):
        """Remove the files."""
        if hasattr(self, "logs"):
            self.logs.end()

    @property
    def log(self):
        """The log."""
        return self.logs.manager.logs[KEY]

    @property
    def history(self):
        """What was told about it."""
        return self.logs.histories[KEY]

    @rule(keys=st.lists(st.integers(0, 4), min_size=1, max_size=3), idempotent=st.booleans())
    def append(self, keys, idempotent):
        """A batch."""
        rows = []
        for key in keys:
            self.records += 1
            value = b"%d" % self.records + b"v" * 60
            rows.append((self.logs.now_ms + self.records % 7, b"%d" % key, value))
        sequence = self.history.following(1, self.log) if idempotent else None
        data = self.tools.batch_of(rows, 0, sequence, False)
        self.logs.write(KEY, data, Batch(self.history.end, rows, 0, sequence))

    @rule()
    def roll(self):
        """A new segment: what lies before it can be cleaned."""
        self.logs.attempt(lambda: self.log.roll(self.logs.now_ms))

    @rule()
    def clean(self):
        """A clean, if the log is worth one."""
        manager, disk = self.logs.manager, self.logs.machine.disk
        now_ms = self.logs.now_ms

        def run():
            cleaner = CompactionManager(manager.logs, manager.directories, disk)
            clean = cleaner.next_clean(
                lambda key: self.log.log_end_offset, CompactionSettings(), 0, 0
            )
            return clean and run_clean(cleaner, clean, disk, now_ms)

        self.logs.attempt(run)

    @rule()
    def flush(self):
        """All of it survives the death of the machine."""
        self.logs.attempt(lambda: self.log.flush(self.logs.now_ms))

    @rule()
    def checkpoint(self):
        """Rolled segments are flushed, offsets noted."""
        self.logs.attempt(lambda: self.logs.manager.checkpoint(dict))

    @rule(calls=st.integers(0, 80), written=st.sampled_from([0.0, 0.5]), power=POWER)
    def plan_a_death(self, calls, written, power):
        """In a later call of the disk the process dies, or the machine."""
        self.logs.power = power
        self.logs.machine.disk.die(calls, written)

    @rule(calls=st.integers(0, 80), failures=st.integers(1, 3))
    def plan_errors(self, calls, failures):
        """Some later calls of the disk fail."""
        self.logs.machine.disk.fail(calls, failures)

    @rule(power=POWER)
    def die(self, power):
        """The process dies between two operations, or the machine."""
        self.logs.restart(power)

    @rule()
    def stop_and_start(self):
        """A clean stop, if nothing fails."""
        self.logs.stop_and_start()

    @invariant()
    def same(self):
        """Files, indexes and memory say what the history says."""
        if hasattr(self, "logs"):
            self.logs.check()


@pytest.mark.hypothesis
def test_a_compacted_log_keeps_the_last_values():
    """Whatever is done, and whatever fails and dies, in any order."""
    run_state_machine_as_test(
        CompactionModel,
        settings=settings(max_examples=max(settings().max_examples // 2, 1)),
    )
