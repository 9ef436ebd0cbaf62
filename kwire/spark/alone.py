"""One driver at a time for a checkpoint, and for the directory of a files sink.

Spark's own checkpoint stops a second driver only when that driver plans a batch. By then the second
driver has opened the sink, and has removed the files that the first one is writing there. So a
driver takes a lock before it changes anything. The lock ends with its process, even after a kill.

Object stores have no locks. There a second driver shows in the sink: see ``sinks.files``.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kwire.spark.storage import LocalStorage, Storage

CHECKPOINT_LOCK = "driver"
SINK_LOCK = "_kwire/driver"


class SecondDriver(RuntimeError):
    """Another driver runs with the same checkpoint or sink; the text is one line."""


@contextmanager
def alone(storage: Storage, name: str, key: str) -> Iterator[None]:
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
