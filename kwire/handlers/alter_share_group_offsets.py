"""AlterShareGroupOffsets: begins the share states of partitions anew, at other offsets.

Behavior: the group must be empty; if there is none of this id, it is created. Topics and partitions
that don't exist have an error of their own. An offset of -1 leaves the start to
``share.auto.offset.reset``.
"""

from functools import partial

from kwire.coordinator.consumer.topics import Topics
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import GROUP, READ, each, once
from kwire.handlers.lib.share_groups import UNKNOWN_PARTITION, check_share_protocol
from kwire.handlers.lib.slices import give_way
from kwire.handlers.lib.waiting import later
from kwire.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

RIGHTS = (once(READ, of=GROUP), each("topics", READ, named="topic_name"))


async def handle(
    request: AlterShareGroupOffsetsRequest, context: RequestContext
) -> AlterShareGroupOffsetsResponse:
    """Begin the states of all partitions that exist anew."""
    groups = context.broker.groups
    starts: dict[bytes, dict[int, int]] = {}
    topics = groups.surroundings.topics()
    try:  # before there are answers, which a refusal would free all at once
        check_share_protocol(context.broker)
        groups.coordinator(request.group_id).coordinator.share.group_or_new(request.group_id)
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.message or None
        )
    responses = [await _answer(topic, topics, starts, context) for topic in request.topics]
    try:
        home = groups.coordinator(request.group_id)
        share = home.coordinator.share
        group = share.group_or_new(request.group_id)
        effects, work = share.offsets.alter(group, starts, groups.now_ms())
        home.carry_out(effects)
        failures = await later(partial(groups.do_state_work, home, work)) if work else {}
    except KafkaError as error:
        return AlterShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.message or None
        )
    for told in responses:
        for row in told.partitions:
            await give_way(context.work)
            failure = failures.get((told.topic_id, row.partition_index))
            if failure is not None:
                row.error_code, row.error_message = failure.code, failure.message or None
    return AlterShareGroupOffsetsResponse(responses=responses)


async def _answer(
    topic: AlterShareGroupOffsetsRequestTopic,
    topics: Topics,
    starts: dict[bytes, dict[int, int]],
    context: RequestContext,
) -> AlterShareGroupOffsetsResponseTopic:
    """The answer for a topic; the offsets of its partitions are added to ``starts``."""
    known = topics.by_name(topic.topic_name)
    told = AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=[])
    if known is not None:
        told.topic_id = known.topic_id
    await give_way(context.work)
    for wanted in topic.partitions:
        await give_way(context.work)
        row = AlterShareGroupOffsetsResponsePartition(partition_index=wanted.partition_index)
        if known is not None and 0 <= wanted.partition_index < known.partitions:
            starts.setdefault(known.topic_id, {})[wanted.partition_index] = wanted.start_offset
        else:
            row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            row.error_message = UNKNOWN_PARTITION
        told.partitions.append(row)
    return told
