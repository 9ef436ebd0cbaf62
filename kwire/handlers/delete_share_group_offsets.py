"""DeleteShareGroupOffsets: ends the share states of whole topics.

Behavior: the group must be empty. A topic without states has an error of its own.
"""

from functools import partial

from kwire.coordinator.consumer.topics import Topic
from kwire.coordinator.effects import Failures
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DELETE, GROUP, READ, each, once
from kwire.handlers.lib.share_groups import UNKNOWN_PARTITION, check_share_protocol
from kwire.handlers.lib.slices import give_way
from kwire.handlers.lib.waiting import later
from kwire.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

RIGHTS = (once(DELETE, of=GROUP), each("topics", READ, named="topic_name"))


async def handle(
    request: DeleteShareGroupOffsetsRequest, context: RequestContext
) -> DeleteShareGroupOffsetsResponse:
    """End the states of all topics that have any."""
    groups = context.broker.groups
    topics = groups.surroundings.topics()
    known: dict[str, Topic] = {}
    for wanted in request.topics:
        await give_way(context.work)
        if (topic := topics.by_name(wanted.topic_name)) is not None:
            known[topic.name] = topic
    ended: set[bytes] = set()
    failures: Failures = {}
    try:
        check_share_protocol(context.broker)
        home = groups.coordinator(request.group_id)
        share = home.coordinator.share
        group = share.group(request.group_id)
        effects, work = share.offsets.delete(group, known.values(), groups.now_ms())
        home.carry_out(effects)
        if work is not None:
            ended = {topic_id for topic_id, _ in work.starts}
            failures = await later(partial(groups.do_state_work, home, work))
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.message or None
        )
    by_topic = {topic_id: error for (topic_id, _), error in failures.items()}
    answers: dict[str, DeleteShareGroupOffsetsResponseTopic] = {}
    for wanted in request.topics:
        await give_way(context.work)
        name = wanted.topic_name
        if name not in answers:
            answers[name] = _answer(name, known.get(name), ended, by_topic)
    return DeleteShareGroupOffsetsResponse(responses=list(answers.values()))


def _answer(
    name: str, topic: Topic | None, ended: set[bytes], failures: dict[bytes, KafkaError]
) -> DeleteShareGroupOffsetsResponseTopic:
    told = DeleteShareGroupOffsetsResponseTopic(topic_name=name)
    if topic is None or topic.topic_id not in ended:
        told.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        nothing = "There is no offset information to delete."
        told.error_message = UNKNOWN_PARTITION if topic is None else nothing
        return told
    told.topic_id = topic.topic_id
    if (failure := failures.get(topic.topic_id)) is not None:
        told.error_code, told.error_message = failure.code, failure.message or None
    return told
