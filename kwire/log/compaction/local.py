"""Compaction in the calling process, for tools and tests; a broker uses ``worker``."""

import time

from kwire.log.compaction.cleaner import Cleaner
from kwire.log.compaction.manager import Clean, CompactionManager, Failure
from kwire.log.compaction.throttle import Throttle
from kwire.log.disk import Disk


def run_clean(manager: CompactionManager, clean: Clean, disk: Disk, steady_ms: int) -> bool:
    """Run a clean from start to end; False if the log changed meanwhile.

    Raises OSError and KafkaError as Cleaner and ``CompactionManager.swap`` do.
    """
    clean.log.flush_rolled()  # a later record must be synced before it replaces an earlier one
    rate = clean.job.max_bytes_per_second
    cleaner = Cleaner(
        clean.job,
        disk,
        clock=time.monotonic,
        throttle=Throttle(rate, time.monotonic, time.sleep),
    )
    for group in cleaner.run():
        if not manager.swap(clean, group, steady_ms):
            manager.give_up(clean, Failure("its segments have changed"), steady_ms)
            return False
    disk.sync_directory(clean.log.directory)
    manager.finish(clean, cleaner.result)
    manager.write_checkpoints()
    return True
