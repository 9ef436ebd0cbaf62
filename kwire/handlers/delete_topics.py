"""DeleteTopics: deletes topics by name, or by id from version 6 on.

Behavior: a topic is gone when the answer is sent, and its name can be used again at once. The next
topic of that name has another id. The offsets that groups committed for the topic are deleted, too.
A topic that is named more than once, by name or id, isn't deleted. All allowed deletions are made
in one commit.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.metadata_commits import GivesWay, commit_in_slices
from kwire.handlers.lib.rights import DELETE, DESCRIBE, TOPIC, Serve, denied, right
from kwire.handlers.lib.slices import pieces
from kwire.handlers.lib.waiting import in_task
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

if TYPE_CHECKING:
    from kwire.broker.quotas import Mutations
    from kwire.handlers.lib.authorization import Authorization

BY_ID_SINCE = 6
DISABLED_SINCE = 3
"""The first version with the error TOPIC_DELETION_DISABLED."""

STRICT_SINCE = 5
"""The first version with the error THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


@in_task
async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """Delete every topic whose deletion is allowed."""
    if context.api_version >= BY_ID_SINCE:
        wanted = request.topics
    else:
        wanted = []
        for piece in pieces(request.topic_names):
            await context.work.give_way()
            wanted += [DeleteTopicState(name=name) for name in piece]
    deletion = _Deletion(context)
    try:
        await deletion.read(wanted)
        await commit_in_slices(context, deletion.decide)
    except KafkaError as error:
        await deletion.fail(error)
    await context.broker.forget_deleted_topics()
    wait_ms = 0 if deletion.mutations is None else deletion.mutations.wait_ms()
    results = [*deletion.refused.values(), *deletion.results]
    context.work.doomed += (wanted, deletion.wanted, deletion.refused)
    return DeleteTopicsResponse(throttle_time_ms=wait_ms, responses=results)


class _Deletion:
    """The topics of one request; ``results`` are from the last decision.

    ``refused`` has the topics that a decision didn't find. A decision that is made again, while
    other clients' changes wait, only checks the topics that were found before or exist now, because
    a request may name 60,000 unknown topics. A topic comes back if the commit that deleted it has
    failed.
    """

    def __init__(self, context: RequestContext) -> None:
        self.refused: dict[tuple[str | None, bytes], DeletableTopicResult] = {}
        self.results: list[DeletableTopicResult] = []
        self._left: Collection[tuple[str | None, bytes]] | None = None
        self.mutations = context.mutations(STRICT_SINCE)
        self.wanted: Counter[tuple[str | None, bytes]] = Counter()
        self._context = context

    async def read(self, wanted: list[DeleteTopicState]) -> None:
        """Read which topics the request names, and how often."""
        for piece in pieces(wanted):
            await self._context.work.give_way()
            self.wanted.update((topic.name, topic.topic_id) for topic in piece)

    async def decide(self, image: MetadataImage, work: GivesWay) -> Sequence[Change]:
        """The changes that delete every topic whose deletion is allowed."""
        found: dict[bytes, DeletableTopicResult] = {}
        left: list[tuple[str | None, bytes]] = []
        for name, topic_id in await self._to_look_at(image, work):
            await work.give_way()
            result = DeletableTopicResult(name=name, topic_id=topic_id, error_message=None)
            try:
                topic = self._find_topic(name, topic_id, image)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message or None
                self.refused[name, topic_id] = result
                continue
            left.append((name, topic_id))
            result.name, result.topic_id = topic.name, topic.topic_id
            first = found.setdefault(topic.topic_id, result)
            if first is not result:
                first.error_code = ErrorCode.INVALID_REQUEST
                first.error_message = "The topic was given by its name and by its id."
        self._left = left
        self.results = list(found.values())
        if self.mutations is not None:
            await self._count_partitions(self.mutations, found, image, work)
        doomed = [topic_id for topic_id, result in found.items() if not result.error_code]
        changes: list[Change] = []
        for piece in pieces(doomed):
            await work.give_way()
            for topic_id in piece:
                changes += delete_topic(image, topic_id)
        return changes

    async def _to_look_at(
        self, image: MetadataImage, work: GivesWay
    ) -> Collection[tuple[str | None, bytes]]:
        """The topics about which a decision on this image may differ from the last one."""
        if self._left is None:
            return self.wanted
        back: list[tuple[str | None, bytes]] = []
        for piece in pieces(list(self.refused)):
            await work.give_way()
            back += [
                key
                for key in piece
                if key[0] in image.topics_by_name or key[1] in image.topics_by_id
            ]
        for key in back:
            del self.refused[key]
        return [*self._left, *back]

    async def _count_partitions(
        self,
        mutations: "Mutations",
        results: Mapping[bytes, DeletableTopicResult],
        image: MetadataImage,
        work: GivesWay,
    ) -> None:
        """Count the partitions of each topic for the quota of the client."""
        mutations.start_decision()
        for topic_id, result in results.items():
            await work.give_way()
            if result.error_code:
                continue
            try:
                mutations.count_partitions(len(image.topics_by_id[topic_id].partitions))
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message

    async def fail(self, error: KafkaError) -> None:
        """Give the error of a failed commit to every topic without an error."""
        for piece in pieces(self.results):
            await self._context.work.give_way()
            for result in piece:
                if not result.error_code:
                    result.error_code, result.error_message = error.code, error.message or None

    def _find_topic(self, name: str | None, topic_id: bytes, image: MetadataImage) -> TopicImage:
        self._check_enabled()
        by_id = topic_id != ZERO_UUID
        if by_id == (name is not None):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Name either a topic or its id.")
        if self.wanted[name, topic_id] > 1:
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


@right(
    "DELETE on the cluster, or DELETE and DESCRIBE on each topic; the name of an id stays hidden"
)
async def _delete_each(request: DeleteTopicsRequest, rights: "Authorization", serve: Serve) -> Any:
    if rights.may_on_cluster(DELETE, tells_denied=False):
        return await serve(request)
    by_id = rights.context.api_version >= BY_ID_SINCE
    named = await rights.each(lambda name: DeleteTopicState(name=name), request.topic_names)
    wanted = request.topics if by_id else named

    def name_of(topic: DeleteTopicState) -> str | None:
        return rights.name_of(topic.topic_id) if topic.name is None else topic.name

    kept, others = await rights.split_by_name(wanted, DELETE, TOPIC, name_of)
    # A topic that the client may not even describe isn't deleted either.
    kept, unseen = await rights.split_by_name(kept, DESCRIBE, TOPIC, name_of)
    request.topics = kept if by_id else []
    request.topic_names = [] if by_id else await rights.each(lambda one: one.name, kept)
    others += unseen
    told = others if by_id else await rights.distinct(others, name_of)
    refused = await rights.each(lambda topic: _refused(topic, name_of(topic), rights), told)
    del named, wanted, unseen, told  # what is left is freed in slices
    await rights.free(others)
    if not by_id:
        await rights.free(kept)
    response: DeleteTopicsResponse = await serve(request)
    response.responses += refused
    return response


def _refused(
    topic: DeleteTopicState, name: str | None, rights: "Authorization"
) -> DeletableTopicResult:
    """The answer for a topic that may not be deleted; the request has its name or its id."""
    shows = topic.name is not None or (
        name is not None and rights.may(DESCRIBE, TOPIC, name, tells_denied=False)
    )
    error = denied(TOPIC)
    return DeletableTopicResult(
        name=name if shows else None,
        topic_id=topic.topic_id,
        error_code=error.code,
        error_message=error.message,
    )


RIGHTS = (_delete_each,)
