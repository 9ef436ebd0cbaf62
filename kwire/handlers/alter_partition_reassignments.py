"""AlterPartitionReassignments: starts or cancels moves of replicas to other brokers (KIP-455).

Behavior:

- A partition without a list of replicas (null) has its move canceled.
- Each partition has its own result. All allowed changes are one commit.
- If a request names a partition twice, the last entry counts, and the partition has one result.
- A client with version 1 can forbid changes of the replication factor (KIP-860).
- The answer doesn't wait for the end of the moves.
"""

from collections.abc import Sequence

from kwire.budget.work import Work
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.metadata_commits import GivesWay, commit_in_slices
from kwire.handlers.lib.rights import ALTER, once
from kwire.handlers.lib.slices import free_in_slices, pieces
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.changes import Change, PartitionsChanged
from kwire.metadata.image import MetadataImage, PartitionImage
from kwire.metadata.leader_election import active_brokers, election_rules
from kwire.metadata.reassignment import cancelled, reassigned
from kwire.metadata.replication_configs import ReplicationConfigs
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

REFUSAL_BYTES = 20
"""The bytes of a refused partition in the answer, beside the message."""

MOST_REPLICAS = 1000
"""The most replicas of a partition. No cluster has so many brokers, so a longer list is wrong."""


RIGHTS = (once(ALTER, every=True),)


@in_task
async def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    """Start and cancel moves, and report the result of each partition."""
    wanted: dict[tuple[str, int], list[int] | None] = {}
    for topic in request.topics:
        await context.work.give_way()
        for piece in pieces(topic.partitions):
            await context.work.give_way()
            wanted.update(((topic.name, one.partition_index), one.replicas) for one in piece)
    moves = _Moves(wanted, may_change_factor=request.allow_replication_factor_change)
    allowed = request.allow_replication_factor_change
    try:
        await commit_in_slices(context, moves.decide)
    except KafkaError as error:
        return await refused(request, error, context.work)
    results = await moves.results(context.work)
    free_in_slices(moves.outcomes, context.work)
    free_in_slices(wanted, context.work)
    return AlterPartitionReassignmentsResponse(
        error_message=None, allow_replication_factor_change=allowed, responses=results
    )


async def refused(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, work: Work
) -> AlterPartitionReassignmentsResponse:
    """The same error for the whole request and for every partition that it names.

    Java's Admin takes the error from the partitions, and fails if one of them is missing.
    """
    message = error.message or None
    response = AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=message,
        allow_replication_factor_change=request.allow_replication_factor_change,
    )
    for topic in request.topics:
        told = ReassignableTopicResponse(name=topic.name)
        response.responses.append(told)
        for piece in pieces(topic.partitions):
            await work.give_way()
            work.answer((REFUSAL_BYTES + len(message or "")) * len(piece))
            told.partitions += [
                ReassignablePartitionResponse(
                    partition_index=one.partition_index,
                    error_code=error.code,
                    error_message=message,
                )
                for one in piece
            ]
    return response


class _Moves:
    """The decision about one request, and its result for each partition."""

    def __init__(
        self, wanted: dict[tuple[str, int], list[int] | None], *, may_change_factor: bool
    ) -> None:
        self._wanted = wanted
        self._may_change_factor = may_change_factor
        self.outcomes: dict[tuple[str, int], KafkaError | None] = {}

    async def decide(self, image: MetadataImage, work: GivesWay) -> Sequence[Change]:
        """The changes of the partitions whose move is allowed."""
        self.outcomes = {}
        configs, active = ReplicationConfigs(image), active_brokers(image)
        rows: dict[bytes, list[tuple[int, PartitionImage]]] = {}
        for (topic, index), replicas in self._wanted.items():
            await work.give_way()
            try:
                after = self._reassign_partition(image, topic, index, replicas, configs, active)
            except KafkaError as error:
                self.outcomes[topic, index] = error.to_keep()
                continue
            self.outcomes[topic, index] = None
            if after is not None:
                rows.setdefault(image.topics_by_name[topic].topic_id, []).append((index, after))
        return [PartitionsChanged(topic_id, tuple(some)) for topic_id, some in rows.items()]

    def _reassign_partition(
        self,
        image: MetadataImage,
        topic: str,
        index: int,
        replicas: list[int] | None,
        configs: ReplicationConfigs,
        active: frozenset[int],
    ) -> PartitionImage | None:
        before = image.partition(topic, index)
        if before is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{index}."
            )
        rules = election_rules(configs, topic, before, active)
        if replicas is None:
            return cancelled(before, rules)
        if len(replicas) > MOST_REPLICAS:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"At most {MOST_REPLICAS} replicas."
            )
        return reassigned(image, before, replicas, rules, may_change_factor=self._may_change_factor)

    async def results(self, work: GivesWay) -> list[ReassignableTopicResponse]:
        """The results of the partitions, by topic."""
        topics: dict[str, ReassignableTopicResponse] = {}
        for (topic, index), error in self.outcomes.items():
            await work.give_way()
            told = topics.setdefault(topic, ReassignableTopicResponse(name=topic, partitions=[]))
            told.partitions.append(
                ReassignablePartitionResponse(
                    partition_index=index,
                    error_code=error.code if error else ErrorCode.NONE,
                    error_message=error.message or None if error else None,
                )
            )
        return list(topics.values())
