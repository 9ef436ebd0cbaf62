"""Brokers that are asked again and again, each of which may fail for a limited time.

Rules:

- The time of a broker begins with its first failure, and ends with its next success. Other brokers
  that answer meanwhile don't prolong it.
- Each broker has growing pauses of its own. What is wrong with it is told once, as soon as its
  answer is a second late (``Patience``).
"""

from collections.abc import Collection
from typing import NamedTuple

import trio

from kwire.client.backoff import Backoff
from kwire.client.cluster import TRY_AGAIN, Cluster
from kwire.client.errors import CannotConnect, ConnectionLost
from kwire.client.patience import Patience
from kwire.errors import KafkaError

FAILURES = (CannotConnect, ConnectionLost, KafkaError)
"""The errors for ``Retries.pause``, which raises those that no repetition mends."""


class _Failing(NamedTuple):
    since_s: float
    backoff: Backoff
    patience: Patience


class Retries:
    """The failures of one kind of question; the key is a node id, or None for any broker."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._failing: dict[int | None, _Failing] = {}

    async def pause(
        self, node: int | None, error: CannotConnect | ConnectionLost | KafkaError, asked_s: float
    ) -> None:
        """Wait before a broker is asked again that was asked at ``asked_s``.

        Raises the error if another attempt is of no use, or if the broker has failed for long.
        """
        if isinstance(error, KafkaError) and error.code not in TRY_AGAIN:
            raise error
        now_s = trio.current_time()
        failing = self._failing.get(node)
        if failing is None:
            failing = _Failing(now_s, self._cluster.backoff(), self._cluster.patience(asked_s))
            self._failing[node] = failing
        if now_s - failing.since_s > self._cluster.settings.give_up_s:
            raise error
        failing.patience.failed([error])
        await trio.sleep(failing.backoff.next_s())

    def succeeded(self, node: int | None) -> None:
        """A broker has answered."""
        self._failing.pop(node, None)

    def only(self, nodes: Collection[int | None]) -> None:
        """Forget all other brokers: they are no longer asked."""
        self._failing = {node: one for node, one in self._failing.items() if node in nodes}
