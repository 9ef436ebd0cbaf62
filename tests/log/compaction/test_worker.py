"""The process that cleans, spoken to through its pipes."""

import json
import subprocess
import sys
from dataclasses import replace

from kwire.log.compaction.manager import CompactionSettings


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
