"""CreatePartitions: more partitions for topics, placed by the broker or by the client.

Behavior: each topic has its own result. A topic that is named twice has one result, an error. All
topics whose change is allowed are extended in one commit.
"""

from collections.abc import Sequence

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.metadata_commits import GivesWay, commit_in_slices, in_slices
from kwire.handlers.lib.rights import ALTER, each
from kwire.handlers.lib.slices import pieces
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.changes import Change
from kwire.metadata.controller import check_partition_total, partitions_in_steps
from kwire.metadata.image import MetadataImage
from kwire.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

STRICT_SINCE = 3
"""The first version with the error THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


RIGHTS = (each("topics", ALTER, is_distinct=True),)


@in_task
async def handle(
    request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    """Extend every topic whose change is allowed."""
    extension = _Extension(context)
    try:
        await extension.read(request.topics)
        await commit_in_slices(context, extension.decide, validate_only=request.validate_only)
    except KafkaError as error:
        await extension.fail(error)
    wait_ms = 0 if extension.mutations is None else extension.mutations.wait_ms()
    results = list(extension.results.values())
    return CreatePartitionsResponse(throttle_time_ms=wait_ms, results=results)


class _Extension:
    """The topics of one request; ``results`` by name are from the last decision."""

    def __init__(self, context: RequestContext) -> None:
        self.results: dict[str, CreatePartitionsTopicResult] = {}
        self.mutations = context.mutations(STRICT_SINCE)
        self._wanted: dict[str, CreatePartitionsTopic | None] = {}
        self._total = 0
        self._context = context

    async def read(self, topics: list[CreatePartitionsTopic]) -> None:
        """Read the wishes of the request; a topic that is named twice becomes None."""
        work = self._context.work
        for topic in topics:
            await work.give_way()
            self._wanted[topic.name] = None if topic.name in self._wanted else topic
            self._total += _missing(topic, self._context.broker.image)

    async def decide(self, image: MetadataImage, work: GivesWay) -> Sequence[Change]:
        """The changes that extend every topic whose change is allowed."""
        changes: list[Change] = []
        self.results.clear()
        if self.mutations is not None:
            self.mutations.start_decision()
        for name, topic in self._wanted.items():
            await work.give_way()
            self.results[name] = result = CreatePartitionsTopicResult(name=name)
            try:
                if topic is None:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                check_partition_total(self._total)
                changes += await self._extend(topic, image, work)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message or None
        return changes

    async def fail(self, error: KafkaError) -> None:
        """Give the error of a failed commit to every topic without an error."""
        for piece in pieces(list(self.results.values())):
            await self._context.work.give_way()
            for result in piece:
                if not result.error_code:
                    result.error_code, result.error_message = error.code, error.message or None

    async def _extend(
        self, topic: CreatePartitionsTopic, image: MetadataImage, work: GivesWay
    ) -> list[Change]:
        assignments: list[list[int]] | None = None
        if topic.assignments is not None:
            assignments = []
            for piece in pieces(topic.assignments):
                await work.give_way()
                assignments += [assignment.broker_ids for assignment in piece]
        random = self._context.broker.random
        steps = partitions_in_steps(image, topic.name, topic.count, assignments, random)
        changes = await in_slices(steps, work)
        if self.mutations is not None:
            self.mutations.count_partitions(_missing(topic, image))
        return changes


def _missing(wanted: CreatePartitionsTopic, image: MetadataImage) -> int:
    """How many partitions the request would create."""
    topic = image.topics_by_name.get(wanted.name)
    return 0 if topic is None else max(0, wanted.count - len(topic.partitions))
