"""CreatePartitions: more partitions for topics, placed by the broker or by the client."""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.metadata.changes import Change
from kwire.metadata.controller import add_partitions
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
    """Extend every topic that may be, each with an answer of its own."""
    names = [topic.name for topic in request.topics]
    results = []
    for topic in request.topics:
        result = CreatePartitionsTopicResult(name=topic.name)
        try:
            if names.count(topic.name) > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            await _extend(topic, context, validate_only=request.validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message or None
        results.append(result)
    return CreatePartitionsResponse(results=results)


async def _extend(
    topic: CreatePartitionsTopic, context: RequestContext, *, validate_only: bool
) -> None:
    broker = context.broker
    assignments = None
    if topic.assignments is not None:
        assignments = [assignment.broker_ids for assignment in topic.assignments]

    def decide(image: MetadataImage) -> list[Change]:
        return add_partitions(image, topic.name, topic.count, assignments, broker.random)

    if validate_only:
        decide(broker.image)
    else:
        await broker.commit(decide)
