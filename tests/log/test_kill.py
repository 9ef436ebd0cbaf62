"""A process killed while it appends: what was acknowledged is there, once and in order."""

import subprocess
import sys

import pytest

from kwire.log.manager import LogManager

_CHILD = """
import sys
from pathlib import Path
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.record.records import BatchBuilder, ProducerState

manager = LogManager.open([Path(sys.argv[1])], node_id=1, now_ms=0)
config = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
log = manager.get_or_create("t", 0, bytes([1] * 16), config, 0)
known = log.producers.producers.get(7)
number = known.last_sequence + 1 if known else 0
while True:
    builder = BatchBuilder()
    builder.add(0, b"k", b"%d" % number)
    batch = builder.build(producer=ProducerState(7, 0, number))
    offset = log.append(batch, leader_epoch=0, now_ms=0).first_offset
    sys.stdout.write(f"{offset} {number}\\n")
    sys.stdout.flush()
    number += 1
"""


@pytest.fixture
def append_and_kill(tools):
    """Run a process that appends, kill it, and give the lines that it got out."""

    def run(lines):
        command = [sys.executable, "-c", _CHILD, str(tools.root / "data")]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            said = [child.stdout.readline() for _ in range(lines)]
            child.kill()
            said += child.stdout.read().split(b"\n")[:-1]
        return [tuple(map(int, line.split())) for line in said]

    return run


def test_nothing_acknowledged_is_lost(tools, append_and_kill):
    """Three kills in a row; the producer's sequences go on where the log says."""
    acknowledged = []
    for lines in (300, 5, 900):
        acknowledged += append_and_kill(lines)
    manager = LogManager.open([tools.root / "data"], node_id=1, now_ms=0, disk=tools.disk)
    values = tools.values(manager.logs["t", 0])
    found = [(offset, int(value)) for offset, value in values]
    assert [offset for offset, _ in found] == list(range(len(found)))
    assert [number for _, number in found] == list(range(len(found)))
    assert set(acknowledged) <= set(found)
    assert len(found) <= len(acknowledged) + 3
    manager.close(0)
