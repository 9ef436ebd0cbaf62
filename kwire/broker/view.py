"""Protocols: the parts of the broker that its coordinators use.

Rule: a coordinator depends on these protocols, never on the broker's module. So coordinators can be
read and tested without a broker, and there is no circle of imports.
"""

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Protocol

import trio

from kwire.broker.flusher import Flusher
from kwire.broker.metrics_counters import Bugs
from kwire.broker.partition import Partition
from kwire.broker.proposals import Asker, Decide
from kwire.budget.threads import Threads
from kwire.clock import Clock
from kwire.config.policies import Policy
from kwire.config.settings import Value
from kwire.metadata.image import MetadataImage

if TYPE_CHECKING:
    from kwire.share.key import SharePartitionKey
    from kwire.share.persister import Persister


class TopicMaker(Protocol):
    """The part of a broker that creates topics."""

    random: Random
    create_topic_policy: Policy | None

    def setting(self, name: str) -> Value:
        """The effective value of a setting."""

    def integer(self, name: str) -> int:
        """The effective value of a setting that is a whole number."""

    async def commit(self, decide: Decide, asker: Asker = ...) -> None:
        """Commit the changes that ``decide`` returns; see ``Commits.commit``."""


class Resumable(Protocol):
    """The share partitions that a broker leads."""

    def resume(self, keys: "Iterable[SharePartitionKey]") -> None:
        """Write the dead letters that may be missing, also if nobody fetches."""


class BrokerView(TopicMaker, Protocol):
    """The part of a broker that its coordinators use."""

    node_id: int
    image: MetadataImage
    settings: Mapping[str, Value]
    clock: Clock
    now_ms: Callable[[], int]
    do_afterwards: Callable[[Callable[[], object]], object]
    threads: Threads
    flusher: Flusher
    background: trio.Nursery
    bugs: Bugs

    @property
    def persister(self) -> "Persister":
        """The states of share partitions."""
        ...

    @property
    def share_partitions(self) -> Resumable:
        """The share partitions that this broker leads."""
        ...

    def partition(self, topic: str, index: int) -> Partition:
        """A partition by name.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, or KAFKA_STORAGE_ERROR if it is offline.
        """

    def partition_if_served(self, topic: str, index: int) -> Partition | None:
        """A partition by name, None where ``partition`` raises an error."""

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether a partition has a replica on this broker that can't be used."""
