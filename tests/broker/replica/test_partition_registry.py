"""The high watermarks of all replicas, which threads look up when they write checkpoints."""

import sys
import threading
from types import SimpleNamespace

from kwire.broker.replica.partition_registry import PartitionRegistry

SWITCH_S = 1e-6
MANY = 300


def test_a_thread_looks_high_watermarks_up_while_roles_come_and_go() -> None:
    """The event loop changes the dicts meanwhile, and the thread never sees one half changed."""
    hosted = PartitionRegistry(1)
    replicas = [
        SimpleNamespace(
            topic="t",
            topic_id=b"t",
            index=n,
            high_watermark=n,
            delete=lambda: None,
            is_deleted=False,
        )
        for n in range(MANY)
    ]
    for one in replicas:
        hosted.host(one)
    errors, is_over = [], threading.Event()

    def look() -> None:
        try:
            while not is_over.is_set():
                found = hosted.high_watermarks()
                assert len(found) >= MANY - 1
                assert all(index == offset for (_, index), offset in found.items())
        except (RuntimeError, AssertionError) as error:
            errors.append(error)

    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    thread = threading.Thread(target=look)
    thread.start()
    try:
        for turn in range(20_000):
            one = replicas[turn % MANY]
            hosted.end_role(("t", one.index))
            hosted.host(one)
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(before_s)
    assert errors == []
