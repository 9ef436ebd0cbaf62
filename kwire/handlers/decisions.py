"""Decisions about metadata that take more than a slice of the event loop, and their commit.

Rules:

- A decision is made in slices on the image of the moment, and holds while that image does. If
  somebody else has committed before it is this decision's turn, it is made again, at once.
- One request makes at most ``MOST_CHANGES`` changes, in one commit.

Source: BoundedList and MAX_RECORDS_PER_USER_OP of Kafka's QuorumController.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage

MOST_CHANGES = 10_000

_T = TypeVar("_T")


class Price(Protocol):
    """What counts the cost of a decision: the ``Work`` of a request, or nobody."""

    def spend(self, units: int) -> bool:
        """Count work that is done next; whether to wait for ``next_slice`` before it."""

    async def next_slice(self) -> None:
        """Wait for the next slice."""


class _Free:
    """A decision that may not wait."""

    def spend(self, units: int) -> bool:
        return False

    async def next_slice(self) -> None:
        raise AssertionError("nothing is waited for")


Decide = Callable[[MetadataImage, Price], Coroutine[Any, Any, Sequence[Change]]]


async def commit_in_slices(
    context: RequestContext, decide: Decide, *, validate_only: bool = False
) -> None:
    """Decide in slices and commit, unless it is only to be validated; KafkaError.

    ``decide`` waits for slices and for nothing else. It may be called several times: the last call
    counts. POLICY_VIOLATION for too many changes.
    """
    broker = context.broker
    image = broker.image
    decided = _checked(await decide(image, context.work))
    if validate_only:
        return

    def as_decided(now: MetadataImage) -> Sequence[Change]:
        return decided if now is image else _checked(_at_once(decide(now, _Free())))

    await broker.commit(as_decided)


def _checked(changes: Sequence[Change]) -> Sequence[Change]:
    if len(changes) > MOST_CHANGES:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Excessively large number of changes in one request: {len(changes)}; "
            f"at most {MOST_CHANGES} are allowed.",
        )
    return changes


def _at_once(decision: Coroutine[Any, Any, _T]) -> _T:
    """The result of a coroutine that doesn't wait."""
    try:
        decision.send(None)
    except StopIteration as done:
        result: _T = done.value
        return result
    raise AssertionError("a decision waits for something other than a slice")
