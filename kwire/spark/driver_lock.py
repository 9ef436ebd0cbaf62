"""One driver at a time for a checkpoint, and for the directory of a files sink.

Spark's own checkpoint stops a second driver only when that driver plans a batch. By then the second
driver has opened the sink, and has removed the files that the first one is writing there. So a
driver takes a lock before it changes anything. The lock ends with its process, even after a kill.

Object stores have no locks. There a second driver shows in the sink: see ``sinks.files``.
"""

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.spark.settings import PipelineSettings
from kwire.spark.sinks import FILE_KINDS
from kwire.spark.storage import LocalStorage, Storage, storage_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKPOINT_LOCK = "driver"
SINK_LOCK = "_kwire/driver"


class SecondDriver(RuntimeError):
    """Another driver runs with the same checkpoint or sink; the text is one line."""


@contextmanager
def file_lock(storage: Storage, name: str, key: str) -> Iterator[None]:
    """Hold a lock file without waiting for it; SecondDriver names the setting ``key``."""
    if not isinstance(storage, LocalStorage):
        yield
        return
    path = Path(storage.url(name).removeprefix("file://"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SecondDriver(
                f"{key}: another driver writes to {storage.url()} now; wait until it has ended, "
                "or give this pipeline a directory of its own"
            ) from None
        yield


@contextmanager
def driver_locks(
    settings: PipelineSettings, storage: Storage, spark: "SparkSession | None" = None
) -> Iterator[None]:
    """Hold the locks of a pipeline, whose checkpoint is in ``storage``; SecondDriver."""
    with ExitStack() as locks:
        locks.enter_context(file_lock(storage, CHECKPOINT_LOCK, "checkpoint"))
        if settings.sink.kind in FILE_KINDS:
            table = storage_at(settings.sink.path, spark)
            locks.enter_context(file_lock(table, SINK_LOCK, "sink.path"))
        yield


def check_no_other_driver(settings: PipelineSettings) -> None:
    """SecondDriver if another driver runs now, as far as that can be seen without Spark."""
    try:
        storage = storage_at(settings.checkpoint)
        with driver_locks(settings, storage):
            pass
    except ValueError:  # the checkpoint or the files are elsewhere
        pass
