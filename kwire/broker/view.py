"""What the broker's coordinators see of the broker that they live in.

Rule: a coordinator names here what it needs, and the broker has it. So the coordinators can be read
and tried without the broker, and the broker's module isn't needed by its parts.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

import trio

from kwire.broker.commits import Decide
from kwire.broker.partition import Partition
from kwire.budget.threads import Threads
from kwire.clock import Clock
from kwire.config.settings import Value
from kwire.metadata.image import MetadataImage


class TopicMaker(Protocol):
    """A broker, as far as topics are created in it."""

    random: Random

    def integer(self, name: str) -> int:
        """The effective value of a setting that is a whole number."""

    async def commit(self, decide: Decide, is_gone: Callable[[], bool] = ...) -> None:
        """Make a decision so; see ``Commits.commit``."""


class BrokerView(TopicMaker, Protocol):
    """A broker, as far as its coordinators see it."""

    image: MetadataImage
    settings: Mapping[str, Value]
    clock: Clock
    now_ms: Callable[[], int]
    do_afterwards: Callable[[Callable[[], object]], object]
    threads: Threads
    background: trio.Nursery
    bugs: list[Exception]

    def partition(self, topic: str, index: int) -> Partition:
        """A partition by name.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR for one that is offline.
        """

    def partition_if_served(self, topic: str, index: int) -> Partition | None:
        """A partition by name, None where ``partition`` has an error to tell."""

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether a partition is this broker's and can't be served."""
