"""Two partitions on a machine that can fail, and what they have to hold; see test_model.py."""

import shutil
import tempfile
from pathlib import Path

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.log.data_directory import LogDirectoryError
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.log.truncation import truncate_log
from kwire.log.validation import AppendOrigin
from tests.log.history import History
from tests.support.log_scan import check_log
from tests.support.log_state import known_producers, leader_epochs
from tests.support.machine import Died, Machine

HOUR_MS = 3_600_000
COMMON = {
    "segment_bytes": 700,
    "index_interval_bytes": 150,
    "segment_index_bytes": 96,
    "file_delete_delay_ms": HOUR_MS,
    "producer_id_expiration_ms": 1 << 60,
    "timestamp_after_max_ms": 1 << 60,
}
CONFIGS = {
    ("a", 0): LogConfig(**COMMON, retention_ms=20 * HOUR_MS),
    ("b", 0): LogConfig(**COMMON, flush_messages=3, retention_bytes=1500),
}
OPEN_FILES = 3


class LogsOnMachine:
    """A manager with two logs, and the history of each; ``attempt`` runs what may fail."""

    def __init__(self, now_ms, configs=CONFIGS):
        self.configs = configs
        fast = Path("/dev/shm")
        self.root = Path(tempfile.mkdtemp(dir=fast if fast.is_dir() else None))
        self.machine = Machine(self.root)
        self.now_ms = now_ms
        self.histories: dict[tuple[str, int], History] = {}
        self.topics = 0
        self.failed = False
        self.power = None
        self.open()
        for key in configs:
            self.create(key)

    def end(self):
        """Close and remove the files."""
        self.machine.kill()
        shutil.rmtree(self.root)

    def attempt(self, operation):
        """What an operation gives; None after an error of the disk, or a death and a restart."""
        self.failed = False
        try:
            return operation()
        except Died:
            self.restart(self.power)
        except (OSError, KafkaError) as error:
            if isinstance(error, KafkaError) and error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            if not (self.machine.disk.failures or self.manager.has_failed):
                raise
            self.failed = True
        return None

    def open(self):
        """Open the manager, again and again where a fault is planned."""
        self.machine.disk.max_open_files = 3
        common = LogConfig(**COMMON)
        self.manager = None
        while self.manager is None:
            try:
                self.manager = LogManager.open(
                    [self.root / "data"],
                    node_id=1,
                    now_ms=self.now_ms,
                    default_config=common,
                    disk=self.machine.disk,
                )
                for key, history in self.histories.items():
                    if not history.deleting:
                        opened = self.manager.get_or_create(
                            *key, history.topic_id, self.configs[key], self.now_ms, is_new=False
                        )
                        opened.gap_at = -1  # as of the only replica, which has nothing to fill it
            except (LogDirectoryError, KafkaError):
                if not self.machine.disk.failures:
                    raise
                self.machine.kill()
                self.manager = None
            except Died:
                self.manager = None

    def restart(self, power=None):
        """The process died, or the machine; open what is left, twice."""
        self.machine.kill() if power is None else self.machine.lose_power(power)
        self.open()
        self.machine.disk.heal()
        # The first start after a power cut may cut what told the next one to trust no snapshot.
        before = self.state(with_producers=power is None)
        self.machine.kill()
        self.open()
        after = self.state(with_producers=power is None)
        for key in before.keys() | after.keys():
            for was, found in zip(before.get(key, ()), after.get(key, ()), strict=True):
                assert found == was, key
        for key, history in list(self.histories.items()):
            log = self.manager.logs.get(key)
            if history.deleting and (log is None or log.topic_id != history.topic_id):
                del self.histories[key]
            else:
                history.deleting = False
                history.restarted(self.manager.logs[key], power_lost=power is not None)

    def state(self, *, with_producers):
        """All that the logs know; ``check`` compares their producers with the files besides."""
        return {
            key: (
                log.log_start_offset,
                log.log_end_offset,
                log.recovery_point,
                list(leader_epochs(log)),
                [(s.base_offset, s.size_bytes, s.max_timestamp) for s in log.segments],
                [s.transaction_index.entries() for s in log.segments],
                {
                    number: (p.producer_epoch, p.last_sequence, p.current_txn_first_offset)
                    for number, p in known_producers(log).items()
                    if with_producers
                },
            )
            for key, log in self.manager.logs.items()
        }

    def there(self, key):
        """A partition's log and history, made anew where it was deleted; None after a fault."""
        if key not in self.histories:
            self.create(key)
        history = self.histories.get(key)
        return history and (self.manager.logs[key], history)

    def create(self, key):
        """Make a partition."""
        self.topics += 1
        topic_id = self.topics.to_bytes(16, "big")
        history = self.histories[key] = History(topic_id, deleting=True)
        if self.attempt(
            lambda: self.manager.get_or_create(*key, topic_id, self.configs[key], self.now_ms)
        ):
            history.deleting = False
        elif self.failed:
            del self.histories[key]

    def write(self, key, data, batch, origin=AppendOrigin.CLIENT):
        """Append and note what came of it; its first offset or None."""
        log, history = self.manager.logs[key], self.histories[key]
        history.doubtful = [*(history.doubtful if log.needs_cut else ()), batch]
        info = self.attempt(
            lambda: log.append(
                data, leader_epoch=history.leader_epoch, now_ms=self.now_ms, origin=origin
            )
        )
        if info is not None:
            assert info.first_offset == batch.first
            history.append(batch, acknowledged=True)
            history.doubtful = []
        elif self.failed and log.log_end_offset > history.end:
            assert log.is_offline
            history.append(batch, acknowledged=False)
            history.doubtful = []
        elif self.failed and not log.is_offline and not log.needs_cut:
            history.doubtful = []
        return info

    def truncate(self, key, offset):
        """Cut; what was cut may have been promised no more."""
        log, history = self.manager.logs[key], self.histories[key]
        history.acknowledged = min(history.acknowledged, offset)
        history.flushed = min(history.flushed, offset)
        self.attempt(lambda: truncate_log(log, offset, self.now_ms, self.machine.disk, self.now_ms))
        if not self.failed and log is self.manager.logs.get(key):
            history.cut(offset)
            manager = self.manager
            self.attempt(lambda: manager.checkpoint(dict))
        if self.failed or self.manager.logs.get(key) is not log:
            self.restart()
            for opened in self.manager.logs.values():  # or the power may undo half of a cut
                opened.flush(self.now_ms)

    def learn_starts(self, manager):
        """Retention has moved the log start offsets."""
        if manager is self.manager:
            for key, history in self.histories.items():
                history.start = history.start_limit = manager.logs[key].log_start_offset

    def stop_and_start(self):
        """A clean stop; where a fault comes between, one that isn't."""
        manager = self.manager
        self.attempt(lambda: manager.close(self.now_ms))
        if manager is not self.manager:
            return
        clean = (self.root / "data" / ".kafka_cleanshutdown").exists()
        if not clean:
            assert self.machine.disk.failures or self.manager.has_failed
            self.restart()
            return
        # pytest keeps the errors that were logged, and their tracebacks keep files open.
        assert not self.machine.disk.open_files
        assert not self.machine.disk.open_count or self.machine.disk.failures
        self.machine.kill()
        self.open()
        for key, history in self.histories.items():
            log = self.manager.logs[key]
            history.flushed = history.acknowledged
            history.sure_start = history.start
            history.restarted(log, power_lost=True)
            assert log.recovery_point == log.log_end_offset == history.end

    def check(self):
        """Files, indexes and memory of all logs say what the histories say."""
        if self.manager.has_failed:
            self.check_offline()
        for key, history in self.histories.items():
            log = self.manager.logs[key]
            assert (log.log_start_offset, log.log_end_offset) == (history.start, history.end)
            check_log(log, has_gaps=history.has_gaps)
            history.check_records(log, history.start)
            history.check_transactions(log)
            history.flushed = max(history.flushed, log.recovery_point)

    def check_offline(self):
        """The directory is offline: nothing is appended any more; the next start is a recovery."""
        for log in self.manager.logs.values():
            with pytest.raises(KafkaError) as refused:
                log.append(b"", leader_epoch=0, now_ms=self.now_ms)
            assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        self.restart()
