"""DeleteTopics: delete topics by name, or by id from version 6 on.

Behaviour: a topic is gone when it is answered, and its name can be used again at once; the next
topic of that name has another id. Offsets that groups committed for it go with it.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.metadata.controller import delete_topic
from kwire.metadata.image import TopicImage
from kwire.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kwire.protocol.types import ZERO_UUID

BY_ID_SINCE = 6


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """Delete every topic that may be."""
    if context.api_version >= BY_ID_SINCE:
        wanted = request.topics
    else:
        wanted = [DeleteTopicState(name=name) for name in request.topic_names]
    responses = [await _delete(topic, wanted, context) for topic in wanted]
    context.broker.groups.forget_deleted_topics()
    return DeleteTopicsResponse(responses=responses)


async def _delete(
    wanted: DeleteTopicState, everything: list[DeleteTopicState], context: RequestContext
) -> DeletableTopicResult:
    result = DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id, error_message=None)
    try:
        if not context.broker.setting("delete.topic.enable"):
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
        if everything.count(wanted) > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name or id.")
        topic = _find(wanted, context)
        await context.broker.commit(lambda image: delete_topic(image, topic.topic_id))
        result.name, result.topic_id = topic.name, topic.topic_id
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message or None
    return result


def _find(wanted: DeleteTopicState, context: RequestContext) -> TopicImage:
    image = context.broker.image
    by_id = wanted.topic_id != ZERO_UUID
    if by_id == (wanted.name is not None):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Name either a topic or its id.")
    if by_id:
        return context.broker.topic_by_id(wanted.topic_id)
    topic = image.topics_by_name.get(wanted.name or "")
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic
