"""The task that removes expired delegation tokens from the metadata. Only the controller runs it.

An expired token is refused at a login, whether or not it is removed yet. The removal makes room for
new tokens.

The interval goes by the steady clock, so a suspend counts: afterwards an overdue check comes within
``LOOK_EVERY_S``. The interval may change meanwhile.

Source: QuorumController.maybeScheduleNextExpiredDelegationTokenSweep of Kafka.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import trio

from kwire.clock import Clock
from kwire.errors import KafkaError
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage
from kwire.metadata.tokens import TokenChanged, without_expired

log = logging.getLogger(__name__)

MOST_AT_ONCE = 1000
"""The most tokens that one commit removes. The next check removes further ones."""

LOOK_EVERY_S = 10.0
"""The longest time between two looks at the steady clock."""


class _Broker(Protocol):
    """The part of the broker that the task needs."""

    node_id: int
    clock: Clock
    image: MetadataImage

    @property
    def controller_id(self) -> int:
        """The node id of the controller."""

    def integer(self, name: str) -> int:
        """A setting."""

    async def commit(self, decide: Callable[[MetadataImage], Awaitable[Sequence[Change]]]) -> None:
        """Commit the changes that ``decide`` returns; KafkaError."""


async def remove_expired_tokens(broker: _Broker) -> None:
    """Remove expired tokens every ``delegation.token.expiry.check.interval.ms``, forever."""
    while True:
        await _wait_interval(broker)
        now_ms = broker.clock.now_ms()
        if broker.controller_id == broker.node_id and _found(broker.image, now_ms):
            await _remove(broker, now_ms)


async def _wait_interval(broker: _Broker) -> None:
    now_ms = began_ms = broker.clock.steady_ms()
    due_ms = began_ms + broker.integer("delegation.token.expiry.check.interval.ms")
    while True:
        await trio.sleep(min(max(due_ms - now_ms, 0) / 1000, LOOK_EVERY_S))
        now_ms = broker.clock.steady_ms()
        due_ms = began_ms + broker.integer("delegation.token.expiry.check.interval.ms")
        if now_ms >= due_ms:
            return


async def _remove(broker: _Broker, now_ms: int) -> None:
    async def decide(image: MetadataImage) -> Sequence[Change]:
        return _found(image, now_ms)

    try:
        await broker.commit(decide)
    except KafkaError as error:
        log.warning("expired delegation tokens aren't removed yet: %s", error)


def _found(image: MetadataImage, now_ms: int) -> list[TokenChanged]:
    return without_expired(image.tokens, now_ms)[:MOST_AT_ONCE]
