"""What a broker tells of the replicas that its data directories don't have."""

from pathlib import Path

from kwire.broker.own_replicas import replicas_of
from kwire.log.checkpoints import HIGH_WATERMARKS, write_offsets
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.metadata.lost_replicas import NEVER_MADE, Replica

TOPIC_ID = bytes(range(16))


def test_a_log_that_had_a_high_watermark_is_lost_and_another_was_never_made(tmp_path: Path) -> None:
    """Somebody may have removed the first one: without it nobody else leads by itself."""
    tmp_path.joinpath("data").mkdir()
    write_offsets(tmp_path / "data" / HIGH_WATERMARKS, {("t", 0): 7, ("t", 1): 0}, Disk())
    manager = LogManager.open([tmp_path / "data"], node_id=1, now_ms=0)
    try:
        manager.get_or_create("t", 2, TOPIC_ID, LogConfig(), 0)
        held = replicas_of(manager)
        assert held("t", 0, TOPIC_ID) is None
        assert held("t", 1, TOPIC_ID) is NEVER_MADE
        [data] = manager.data_directories
        assert data.meta is not None
        assert held("t", 2, TOPIC_ID) == Replica(data.meta.directory_id, -1)
    finally:
        manager.close(0)
