"""CreatePartitions: more partitions for topics, placed by the broker or by the client.

Behaviour: each topic has an answer of its own; one that is named twice gets one answer, a refusal.
All topics that may be extended are extended in one commit.
"""

from collections import Counter
from collections.abc import Sequence

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.metadata.changes import Change
from kwire.metadata.controller import add_partitions, check_partition_total
from kwire.metadata.image import MetadataImage
from kwire.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def handle(
    request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    """Extend every topic that may be."""
    extension = _Extension(request.topics, context)
    if request.validate_only:
        extension.decide(context.broker.image)
    else:
        try:
            await context.commit(extension.decide)
        except KafkaError as error:
            extension.fail(error)
    return CreatePartitionsResponse(results=list(extension.results.values()))


class _Extension:
    """The topics of one request; ``results`` by name are those of the last decision."""

    def __init__(self, topics: list[CreatePartitionsTopic], context: RequestContext) -> None:
        self.results: dict[str, CreatePartitionsTopicResult] = {}
        self._topics = topics
        self._names = Counter(topic.name for topic in topics)
        self._random = context.broker.random

    def decide(self, image: MetadataImage) -> Sequence[Change]:
        """The changes that extend every topic that may be."""
        total = sum(_missing(topic, image) for topic in self._topics)
        changes: list[Change] = []
        self.results.clear()
        for topic in self._topics:
            result = CreatePartitionsTopicResult(name=topic.name)
            self.results[topic.name] = result
            try:
                if self._names[topic.name] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                check_partition_total(total)
                changes += self._extend(topic, image)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message or None
        return changes

    def fail(self, error: KafkaError) -> None:
        """The decision could not be committed: give its error to every topic that has none."""
        for result in self.results.values():
            if not result.error_code:
                result.error_code, result.error_message = error.code, error.message or None

    def _extend(self, topic: CreatePartitionsTopic, image: MetadataImage) -> list[Change]:
        assignments = None
        if topic.assignments is not None:
            assignments = [assignment.broker_ids for assignment in topic.assignments]
        return add_partitions(image, topic.name, topic.count, assignments, self._random)


def _missing(wanted: CreatePartitionsTopic, image: MetadataImage) -> int:
    """How many partitions there would be to create."""
    topic = image.topics_by_name.get(wanted.name)
    return 0 if topic is None else max(0, wanted.count - len(topic.partitions))
