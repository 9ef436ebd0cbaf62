"""DeleteTopics: delete topics by name, or by id from version 6 on.

Behaviour: a topic is gone when it is answered, and its name can be used again at once; the next
topic of that name has another id. Offsets that groups committed for it go with it. A topic that is
named more than once, by name or id, isn't deleted. All that may be are deleted in one commit.
"""

from collections import Counter
from collections.abc import Sequence

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.metadata.changes import Change
from kwire.metadata.controller import delete_topic
from kwire.metadata.image import MetadataImage, TopicImage
from kwire.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kwire.protocol.types import ZERO_UUID

BY_ID_SINCE = 6
DISABLED_SINCE = 3
"""The version that brought the error TOPIC_DELETION_DISABLED."""


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """Delete every topic that may be."""
    if context.api_version >= BY_ID_SINCE:
        wanted = request.topics
    else:
        wanted = [DeleteTopicState(name=name) for name in request.topic_names]
    deletion = _Deletion(wanted, context)
    try:
        await context.commit(deletion.decide)
    except KafkaError as error:
        deletion.fail(error)
    await context.broker.forget_deleted_topics()
    return DeleteTopicsResponse(responses=deletion.results)


class _Deletion:
    """The topics of one request; ``results`` are those of the last decision."""

    def __init__(self, wanted: list[DeleteTopicState], context: RequestContext) -> None:
        self.results: list[DeletableTopicResult] = []
        self._wanted = Counter((topic.name, topic.topic_id) for topic in wanted)
        self._context = context

    def decide(self, image: MetadataImage) -> Sequence[Change]:
        """The changes that delete every topic that may be."""
        self.results = []
        found: dict[bytes, DeletableTopicResult] = {}
        for name, topic_id in self._wanted:
            result = DeletableTopicResult(name=name, topic_id=topic_id, error_message=None)
            try:
                topic = self._find(name, topic_id, image)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message or None
                self.results.append(result)
                continue
            result.name, result.topic_id = topic.name, topic.topic_id
            first = found.setdefault(topic.topic_id, result)
            if first is not result:
                first.error_code = ErrorCode.INVALID_REQUEST
                first.error_message = "The topic was given by its name and by its id."
        self.results += found.values()
        doomed = [topic_id for topic_id, result in found.items() if not result.error_code]
        return [change for topic_id in doomed for change in delete_topic(image, topic_id)]

    def fail(self, error: KafkaError) -> None:
        """The decision could not be committed: give its error to every topic that has none."""
        for result in self.results:
            if not result.error_code:
                result.error_code, result.error_message = error.code, error.message or None

    def _find(self, name: str | None, topic_id: bytes, image: MetadataImage) -> TopicImage:
        self._check_enabled()
        by_id = topic_id != ZERO_UUID
        if by_id == (name is not None):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Name either a topic or its id.")
        if self._wanted[name, topic_id] > 1:
            kind = "id" if by_id else "name"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {kind}.")
        if by_id:
            topic = image.topics_by_id.get(topic_id)
            if topic is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
                )
            return topic
        topic = image.topics_by_name.get(name or "")
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            )
        return topic

    def _check_enabled(self) -> None:
        if self._context.broker.setting("delete.topic.enable"):
            return
        known = self._context.api_version >= DISABLED_SINCE
        code = ErrorCode.TOPIC_DELETION_DISABLED if known else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, "Topic deletion is disabled.")
