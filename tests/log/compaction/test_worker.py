"""The process that cleans, spoken to through its pipes."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from kwire.log.compaction.manager import CompactionSettings
from kwire.record.compression import Compression


def start() -> subprocess.Popen:
    """The process, waiting for jobs."""
    return subprocess.Popen(
        [sys.executable, "-m", "kwire.log.compaction.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def send(process, job):
    """Give it a job."""
    process.stdin.write(json.dumps(job.to_json()).encode() + b"\n")
    process.stdin.flush()


def test_it_does_jobs_until_its_input_ends(compaction):
    """One message for each segment that is ready, then the end; errors are told, not died of."""
    c = compaction(segment_bytes=500)
    for number in range(12):
        c.put(f"k{number % 2}", "x" * 40)
    c.log.roll(c.now_ms)
    clean = c.next_clean()
    with start() as process:
        send(process, replace(clean.job, directory="/nowhere"))
        [text, is_damaged, error_number] = json.loads(process.stdout.readline())["failed"]
        assert "/nowhere" in text
        assert not is_damaged
        assert error_number == 2
        send(process, clean.job)
        groups = []
        while "group" in (answer := json.loads(process.stdout.readline())):
            groups.append(answer["group"])
        assert [base for base, _, _ in groups] == [bases[0] for _, _, bases in groups]
        assert answer["end_offset"] == 12
        assert answer["statistics"]["messages_written"] == 2
        process.stdin.close()
        assert process.wait(30) == 0


def test_it_ends_with_its_input_in_the_middle_of_a_job(compaction):
    """Whoever started it is gone, and it must not go on writing."""
    c = compaction()
    for number in range(100):
        c.put(f"k{number}", "x" * 40)
    c.log.roll(c.now_ms)
    c.options = CompactionSettings(max_bytes_per_second=1.0)
    with start() as process:
        send(process, c.next_clean().job)
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"max_decompressed_bytes": 100_000}, "kwire.decompressed.max.bytes=100000"),
        ({"max_decompressed_records": 3}, "kwire.decompressed.max.records=3"),
    ],
)
def test_a_bomb_in_the_log_makes_it_uncleanable(compaction, tools, limits, told):
    """The process does not decompress it to its end; the log says which batch and which setting."""
    c = compaction(options=limits, max_message_bytes=1000, segment_bytes=100_000)
    c.put("a", "1")
    values = [bytes(100_000)] * 4
    bomb = tools.batch(*values, keys=(b"k",) * 4, compression=Compression.ZSTD)
    c.log.append(bomb, leader_epoch=0, now_ms=c.now_ms)
    c.log.roll(c.now_ms)
    failure = c.compact_failing()
    assert failure.is_damaged
    assert "the batch at offset 1" in failure.reason
    assert told in failure.reason
    assert list(c.manager.uncleanable) == [("t", 0)]
    assert c.next_clean() is None
