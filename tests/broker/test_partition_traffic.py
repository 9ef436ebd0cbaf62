"""What a partition's traffic counts: what came since this broker serves it."""

from pathlib import Path

from kwire.broker.partition import Partition
from tests.support.in_process import running_server
from tests.support.records import batch


async def test_what_a_log_had_before_does_not_count(tmp_path: Path) -> None:
    """A follower that becomes the leader serves a log that was written to."""
    async with running_server(tmp_path) as server:
        await server.topic("t")
        first = server.broker.partition("t", 0)
        before, later = batch(b"1"), batch(b"2", b"3")
        first.append(before, now_ms=server.broker.now_ms())
        again = Partition("t", 0, first.topic_id, first.log, 0, server.broker.flusher)
        assert (again.messages_in, again.bytes_in) == (0, 0)
        again.append(later, now_ms=server.broker.now_ms())
        assert (again.messages_in, again.bytes_in) == (2, len(later))
        assert (first.messages_in, first.bytes_in) == (3, len(before) + len(later))
