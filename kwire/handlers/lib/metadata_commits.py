"""Decisions about metadata that take more than one slice of the event loop, and their commit.

Rules:

- A decision is first made on the current image, in slices, before it queues for its commit. So a
  request with many slices delays no other change. If the image has changed when the decision's
  turn comes, the decision is made again then. Its slices no longer wait for other requests.
- A decision that changes nothing isn't queued. Otherwise a request about 60,000 refused partitions
  would be decided again while the changes of others wait.
- One request makes at most ``MOST_CHANGES`` changes, in one commit.
- New partitions are placed in pieces (``in_slices``), because one topic may have 10,000 of them.

Source: BoundedList and MAX_RECORDS_PER_USER_OP of Kafka's QuorumController.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

import trio

from kwire.budget.work import SLICE_UNITS
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.slices import free_in_slices
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage
from kwire.metadata.placement import Steps

MOST_CHANGES = 10_000
UNITS_PER_REPLICA = 2
"""The cost of a new partition, for each of its replicas."""

_T = TypeVar("_T")


class Price(Protocol):
    """Counts the cost of a decision: a request's ``Work``, or ``_InTurn``, which charges no one."""

    def spend(self, units: int) -> bool:
        """Count the next piece of work; return whether to wait for ``next_slice`` before it."""

    async def next_slice(self) -> None:
        """Wait for the next slice."""


class _InTurn:
    """Counts the cost of a decision that holds the queue of changes: other tasks have their
    turn after each slice."""

    def __init__(self) -> None:
        self._left = SLICE_UNITS

    def spend(self, units: int) -> bool:
        """Count the next piece of work."""
        self._left -= units
        return self._left < 0

    async def next_slice(self) -> None:
        """Let other tasks have their turn once."""
        self._left = SLICE_UNITS
        await trio.lowlevel.checkpoint()


Decide = Callable[[MetadataImage, Price], Coroutine[Any, Any, Sequence[Change]]]


async def in_slices(steps: Steps[_T], work: Price) -> _T:
    """The result of steps that make new partitions; each piece waits for its slice."""
    while True:
        try:
            replicas = next(steps)
        except StopIteration as done:
            result: _T = done.value
            return result
        if work.spend(UNITS_PER_REPLICA * replicas):
            await work.next_slice()


async def commit_in_slices(
    context: RequestContext, decide: Decide, *, validate_only: bool = False
) -> None:
    """Make a decision in slices and commit its changes; with ``validate_only``, or if there are
    none, commit nothing. KafkaError.

    ``decide`` waits for slices and for nothing else. This may call it several times: the last call
    counts. Raises KafkaError (POLICY_VIOLATION) for too many changes.
    """
    broker = context.broker
    image = broker.image
    decided = _checked(await decide(image, context.work), context)
    if validate_only or not decided:
        free_in_slices(decided, context.work)
        return

    last: tuple[MetadataImage, Sequence[Change]] | None = (image, decided)

    async def as_decided(now: MetadataImage) -> Sequence[Change]:
        # The newest image counts, not ``image``: the outcomes of ``decide`` belong to the newest.
        nonlocal last
        if last is None or last[0] is not now:
            last = None
            last = now, _checked(await decide(now, _InTurn()), context)
        return last[1]

    await context.commit(as_decided)


def _checked(changes: Sequence[Change], context: RequestContext) -> Sequence[Change]:
    if len(changes) > MOST_CHANGES:
        free_in_slices(changes, context.work)
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of changes in one request: {len(changes)}; "
            f"at most {MOST_CHANGES} are allowed.",
        )
    return changes
