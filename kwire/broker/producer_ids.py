"""Producer ids, each given once, from blocks that this broker takes durably from the cluster.

Source: ProducerIdManager of Kafka.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import trio

from kwire.metadata.changes import Change
from kwire.metadata.controller import PRODUCER_ID_BLOCK, allocate_producer_ids
from kwire.metadata.image import MetadataImage

Commit: TypeAlias = Callable[[Callable[[MetadataImage], Sequence[Change]]], Awaitable[None]]
"""``Broker.commit``."""


class ProducerIds:
    """The producer ids that a broker gives out."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._block = range(0)
        self._lock = trio.Lock()

    async def next(self) -> int:
        """A new producer id for one producer."""
        async with self._lock:
            if not self._block:
                await self._take_block()
            assert self._block
            producer_id, self._block = self._block[0], self._block[1:]
            return producer_id

    async def _take_block(self) -> None:
        """Take the next block; this broker may use the block only after a durable commit."""
        first = 0

        def decide(image: MetadataImage) -> Sequence[Change]:
            nonlocal first
            first = image.next_producer_id
            return allocate_producer_ids(image)

        await self._commit(decide)
        # Two producers with one id would take each other's batches for their own, sent again.
        assert first >= self._block.stop, (first, self._block)
        self._block = range(first, first + PRODUCER_ID_BLOCK)
