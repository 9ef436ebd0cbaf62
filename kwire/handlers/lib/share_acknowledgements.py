"""Acknowledgements of a member, in ShareFetch and ShareAcknowledge.

Rules:

- Each partition has its own result. All of its acknowledgements count, or none.
- The answer waits until the acknowledgements are persistent. The wait needs no task.
- The batches of a partition are in order and don't overlap; each has one type, or one for each
  record. Anything else is INVALID_REQUEST.

Source: SharePartitionManager, KafkaApis.validateAcknowledgementBatches of Kafka.
"""

from collections.abc import Sequence
from typing import Protocol

import trio

from kwire.broker.delayed import Delayed
from kwire.broker.share_settings import ShareSettings
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.slices import give_way, pieces
from kwire.handlers.lib.waiting import happens
from kwire.share.key import SharePartitionKey
from kwire.share.partition import AckBatch, Acknowledge
from kwire.share.run import Transition
from kwire.share.sessions import TopicPartition

READ, TOPIC = 3, 2
"""The operation and the resource of ACLs (``kwire.metadata.acls``)."""

_TYPES = frozenset(int(one) for one in Acknowledge)
_TIMEOUT_S = 30.0
"""So long a persister may try; then the member is told that nothing is known."""


class WantedBatch(Protocol):
    """An acknowledgement in a request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class Acknowledgements:
    """The results of one request's acknowledgements, by partition; None: not known yet."""

    def __init__(self) -> None:
        self.errors: dict[TopicPartition, KafkaError] = {}
        self.begun: dict[TopicPartition, Transition] = {}

    async def begin(
        self,
        key: SharePartitionKey,
        member_id: str,
        batches: Sequence[WantedBatch],
        context: RequestContext,
        settings: ShareSettings,
        *,
        renews: bool,
    ) -> None:
        """Begin a partition's acknowledgements, by the group's settings."""
        manager = context.broker.share_partitions
        place = key.topic_id, key.partition
        try:
            check_may_read(key.topic_id, context)
            wanted: list[AckBatch] = []
            counts: dict[int, int] = {}
            for piece in pieces(batches):
                await give_way(context.work)
                for one in piece:
                    last = wanted[-1].last_offset if wanted else -1
                    wanted.append(_checked(one, last, renews=renews))
                    _count(wanted[-1], counts)
            served = manager.served(key)
            if served is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            served.share.limits = settings.limits
            transition = served.share.acknowledge(member_id, wanted, manager.now_ms())
            manager.acknowledgements.update(counts)
            self.begun[place] = transition
            manager.write(served)
        except KafkaError as error:
            self.errors[place] = error.to_keep()

    async def end(self) -> None:
        """Wait until everything is persistent, or an error says why not."""
        change: Delayed | None = None
        for place, transition in self.begun.items():
            if not transition.is_done:
                change = change or Delayed(trio.current_time() + _TIMEOUT_S)
                transition.told = change
                while not transition.is_done:
                    if not await happens(change):
                        break
            if not transition.is_done:
                self.errors[place] = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
            elif transition.error is not None:
                self.errors[place] = transition.error


def _count(batch: AckBatch, counts: dict[int, int]) -> None:
    """Count a batch's records by their type."""
    if len(batch.types) == 1:
        kind = batch.types[0]
        counts[kind] = counts.get(kind, 0) + batch.last_offset - batch.first_offset + 1
        return
    for kind in batch.types:
        counts[kind] = counts.get(kind, 0) + 1


def check_may_read(topic_id: bytes, context: RequestContext) -> None:
    """KafkaError: UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED."""
    topic = context.broker.topic_by_id(topic_id)
    authorizer = context.broker.authorizer
    if authorizer is not None:
        question = READ, TOPIC, topic.name
        rule = authorizer.rule(context.connection, *question)
        if not rule.is_allowed:
            from kwire.security.audit import note_answer

            note_answer(authorizer, context.connection, "ShareFetch", question, rule)
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _checked(batch: WantedBatch, after: int, *, renews: bool) -> AckBatch:
    """A batch that follows an offset; KafkaError (INVALID_REQUEST)."""
    types = batch.acknowledge_types
    size = batch.last_offset - batch.first_offset + 1
    if batch.first_offset <= after:
        why = "the acknowledgements overlap, or are out of order"
    elif size < 1:
        why = "the last offset is before the first"
    elif len(types) not in {1, size}:
        why = "there is neither one type of acknowledgement nor one for each record"
    elif not _TYPES.issuperset(types):
        why = "a type of acknowledgement is unknown"
    elif not renews and Acknowledge.RENEW in types:
        why = "renewals are not allowed here"
    else:
        return AckBatch(batch.first_offset, batch.last_offset, types)
    raise KafkaError(ErrorCode.INVALID_REQUEST, why)
