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

from kwire.budget.slices import Slices
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.slices import free_in_slices
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage
from kwire.metadata.placement import Steps

MOST_CHANGES = 10_000

_T = TypeVar("_T")


class GivesWay(Protocol):
    """The slices of a decision: those of its request, or while it holds the queue of changes,
    ``Slices``, which wait for no other request.
    """

    async def give_way(self) -> None:
        """Let others have their turn if the slice is over."""


Decide = Callable[[MetadataImage, GivesWay], Coroutine[Any, Any, Sequence[Change]]]


async def in_slices(steps: Steps[_T], slices: GivesWay) -> _T:
    """The result of steps that make new partitions; each piece waits for its slice."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: _T = done.value
            return result
        await slices.give_way()


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

    async def as_decided(image: MetadataImage) -> Sequence[Change]:
        # The newest image counts, not ``image``: the outcomes of ``decide`` belong to the newest.
        nonlocal last
        if last is None or last[0] is not image:
            last = None
            last = image, _checked(await decide(image, Slices()), context)
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
