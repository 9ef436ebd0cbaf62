"""The append in one step leaves behind what the whole append does, whatever comes between."""

import os
from random import Random
from shutil import rmtree

import pytest
from crc32c import crc32c

from kwire.errors import ErrorCode, KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.producer_snapshot import to_snapshot
from kwire.log.truncation import truncate_log
from kwire.log.validation import CheckedBatch
from kwire.record.batch import NO_TIMESTAMP, RecordBatch
from tests.support.log_state import base_offsets, known_producers, leader_epochs

SETTINGS = [
    {"segment_bytes": 4000, "index_interval_bytes": 300},
    {"segment_index_bytes": 60, "index_interval_bytes": 200},
    {"segment_ms": 3000, "segment_jitter_ms": 1000, "index_interval_bytes": 0},
    {"index_interval_bytes": 100_000},
]


class Side:
    """A log that is appended to in one step where that goes, or never."""

    def __init__(self, tools, *, is_fast):
        self.tools = tools
        self.is_fast = is_fast
        self.epoch = 0
        self.settings = SETTINGS[0]
        self.log = tools.open(**self.settings)

    def append(self, data, now_ms):
        """The first offset, or the error's code."""
        # Only a batch that is alone in its buffer is appended in one step.
        before = b"" if self.is_fast else b"\0"
        batch = RecordBatch(memoryview(bytearray(before + data)), len(before))
        checked = CheckedBatch(batch, NO_TIMESTAMP)
        try:
            return self.log.append_checked(
                checked, leader_epoch=self.epoch, now_ms=now_ms
            ).first_offset
        except KafkaError as error:
            return error.code

    def reopen(self):
        """As a clean restart does."""
        self.log.close(self.tools.now_ms)
        self.log = self.tools.open(**self.settings)

    def state(self):
        """What is known of the log, and what is in its files."""
        log = self.log
        segments = [
            (
                segment.base_offset,
                segment.size_bytes,
                segment.max_timestamp,
                segment.max_timestamp_offset,
                segment.first_timestamp(),
                segment.path(".log").read_bytes(),
                segment.offset_index.entries,
                segment.time_index.entries,
            )
            for segment in log.segments
        ]
        producers = to_snapshot(log.producers)
        return log.log_end_offset, leader_epochs(log), producers, segments


def some_batch(tools, random, sequences, now_ms):
    """A plain batch, mostly of a producer that goes on."""
    count = random.choice([1, 1, 2, 8, 30])
    producer = None
    if random.random() < 0.6:
        number = random.randrange(3)
        sequence = sequences[number] if random.random() < 0.8 else random.choice([0, 5])
        sequences[number] = sequence + count if random.random() < 0.9 else sequence
        producer = (number, random.choice([0] * 30 + [1]), sequence)
    timestamp = now_ms + random.choice([0, 10, 900, -900])
    return tools.batch(*[random.randbytes(40)] * count, timestamp=timestamp, producer=producer)


def meddle(side, chance, now_ms):
    """Do something to the log between two appends, mostly nothing."""
    if chance < 0.01:
        side.settings = SETTINGS[int(chance * 100 * len(SETTINGS))]
        side.log.update_config(LogConfig(**side.settings))
    elif chance < 0.02:
        truncate_log(side.log, side.log.log_end_offset * 2 // 3, now_ms, side.tools.disk, now_ms)
    elif chance < 0.03:
        side.reopen()
    elif chance < 0.035:
        side.epoch += 1
    elif chance < 0.04:
        side.log.roll(now_ms)


def history(side, seed):
    """What a random history answers and leaves behind."""
    random = Random(seed)
    sequences, now_ms = [0, 0, 0], side.tools.now_ms
    seen = []
    for _ in range(600):
        now_ms += random.randrange(20)
        chance = random.random()
        meddle(side, chance, now_ms)
        data = some_batch(side.tools, random, sequences, now_ms)
        seen.append(side.append(data, now_ms))
        if chance < 0.05:
            seen.append(side.state())
    return [*seen, side.state()]


@pytest.mark.parametrize("seed", range(4))
def test_both_leave_the_same_behind(tools, seed):
    """In one directory after the other: the jitter of a segment goes by its path."""
    slow = Side(tools, is_fast=False)
    expected = history(slow, seed)
    slow.log.abandon()
    rmtree(tools.directory)
    fast = Side(tools, is_fast=True)
    assert history(fast, seed) == expected


@pytest.mark.parametrize("is_fast", [True, False])
@pytest.mark.parametrize("failing_call", range(3))
def test_what_the_disk_refuses_leaves_nothing_behind(tools, failing_call, is_fast):
    """The producer is told, and the log goes on where it was."""
    side = Side(tools, is_fast=is_fast)
    side.log.update_config(LogConfig(index_interval_bytes=0))
    for _ in range(3):
        side.append(tools.batch(b"v"), tools.now_ms)
    tools.disk.fail_at = tools.disk.calls + failing_call
    answer = side.append(tools.batch(b"w"), tools.now_ms)
    is_refused = answer is ErrorCode.KAFKA_STORAGE_ERROR
    assert is_refused or (answer == 3 and failing_call)
    tools.disk.fail_at = -1
    assert side.append(tools.batch(b"x"), tools.now_ms) == (3 if is_refused else 4)
    kept = [b"v"] * 3 + [b"w"] * (not is_refused) + [b"x"]
    assert [value for _, value in tools.values(side.log)] == kept


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_failed_or_an_abandoned_log_takes_nothing(tools, is_fast):
    side = Side(tools, is_fast=is_fast)
    for _ in range(3):
        side.append(tools.batch(b"v"), tools.now_ms)
    side.log.needs_cut = True  # what is behind the end is cut off first
    assert side.append(tools.batch(b"w"), tools.now_ms) == 3
    side.log.health.fail("it is broken", OSError())
    assert side.append(tools.batch(b"x"), tools.now_ms) is ErrorCode.KAFKA_STORAGE_ERROR
    side.log.health.failure = None
    side.log.abandon()
    assert side.append(tools.batch(b"x"), tools.now_ms) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert side.log.log_end_offset == 4


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_producer_with_a_transaction_writes_nothing_beside_it(tools, is_fast):
    side = Side(tools, is_fast=is_fast)
    for sequence in range(3):
        side.append(tools.batch(b"v", producer=(7, 0, sequence)), tools.now_ms)
    known_producers(side.log)[7].current_txn_first_offset = 3
    side.log.producers.open_transactions[7] = 3
    refused = side.append(tools.batch(b"w", producer=(7, 0, 3)), tools.now_ms)
    assert refused is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_segment_takes_what_is_as_old_as_it_may_be_and_no_more(tools, is_fast):
    side = Side(tools, is_fast=is_fast)
    side.log.update_config(LogConfig(segment_ms=1000))
    for age_ms in (0, 0, 1000, 1001):
        side.append(tools.batch(b"v", timestamp=tools.now_ms + age_ms), tools.now_ms)
    assert base_offsets(side.log) == [0, 3]


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_segment_takes_the_offsets_that_fit_into_its_indexes(tools, is_fast):
    """What is opened nowhere may say that it is of very many records."""
    side = Side(tools, is_fast=is_fast)
    side.log.update_config(LogConfig())
    for _ in range(2):
        side.append(tools.batch(b"v"), tools.now_ms)
    for _ in range(2):
        # So many records as a quarter of a megabyte of zstd could hold.
        data = bytearray(tools.batch(*[os.urandom(5000)] * 9, os.urandom(250_000), compression=4))
        data[23:27], data[57:61] = (2**30 - 1).to_bytes(4, "big"), (2**30).to_bytes(4, "big")
        data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
        side.append(data, tools.now_ms)
    assert base_offsets(side.log) == [0, 2**30 + 2]
