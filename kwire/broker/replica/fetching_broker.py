"""The parts of the broker that its fetchers need."""

from random import Random
from typing import Protocol

import trio

from kwire.broker.flusher import Flusher
from kwire.broker.replica.replica_fetch_connection import Watcher
from kwire.broker.replica.throttles import Throttles
from kwire.budget.threads import Threads
from kwire.clock import Clock
from kwire.log.manager import LogManager
from kwire.metadata.image import MetadataImage


class FetchingBroker(Protocol):
    """A broker that follows others; ``watcher`` is its poller, None if it has none."""

    node_id: int
    image: MetadataImage
    log_manager: LogManager
    threads: Threads
    flusher: Flusher
    clock: Clock
    random: Random
    background: trio.Nursery
    throttles: Throttles | None
    watcher: Watcher | None

    def integer(self, name: str) -> int:
        """The effective value of a setting that is a whole number."""
