"""The partition that a consumer may read: led here, or followed (``nearest_replica``).

The audit log has a line for each denied read, and one for each allowed topic of a request.
"""

from collections.abc import Sequence

from kwire.broker.fetch_sessions import PartitionKey, WantedPartition
from kwire.broker.replica.partition_registry import Hosted
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.slices import give_way, pieces

READ, TOPIC = 3, 2
"""The operation and the resource of ACLs (``kwire.metadata.acls``), which say who may fetch."""

TOPIC_IDS_SINCE = 13


def readable_partition(
    key: PartitionKey, wanted: WantedPartition, context: RequestContext
) -> Hosted:
    """The partition that a client may read; KafkaError otherwise."""
    name, topic_id, index = key
    broker = context.broker
    by_id = context.api_version >= TOPIC_IDS_SINCE
    if broker.authorizer is not None:
        _check_readable(broker.topic_by_id(topic_id).name if by_id else name, context)
    partition: Hosted
    try:
        partition = (
            broker.partition_by_id(topic_id, index) if by_id else broker.partition(name, index)
        )
    except KafkaError as error:
        if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise
        from kwire.handlers.lib.nearest_replica import followed

        partition = followed(broker.topic_by_id(topic_id).name if by_id else name, index, context)
    partition.check_leader_epoch(wanted.current_leader_epoch)
    return partition


def _check_readable(name: str, context: RequestContext) -> None:
    """Raise KafkaError (TOPIC_AUTHORIZATION_FAILED) unless the client may read a topic."""
    question = READ, TOPIC, name
    authorizer, client = context.broker.authorizer, context.connection
    assert authorizer is not None
    rule = authorizer.rule(client, *question)
    if not rule.is_allowed:
        from kwire.security.audit import note_answer

        note_answer(authorizer, client, "Fetch", question, rule)
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def note_allowed(
    wanted: Sequence[tuple[PartitionKey, WantedPartition]], context: RequestContext
) -> None:
    """Note the topics of a request that the client may read, if the audit log wants that."""
    authorizer, client = context.broker.authorizer, context.connection
    if authorizer is None or not authorizer.notes_allowed:
        return
    from kwire.security.audit import note_answer

    counts: dict[tuple[str, bytes], int] = {}
    for piece in pieces(wanted):
        await give_way(context.work)
        for (name, topic_id, _), _ in piece:
            counts[name, topic_id] = counts.get((name, topic_id), 0) + 1
    topics_by_id = context.broker.image.topics_by_id
    for some in pieces(list(counts.items())):
        await give_way(context.work)
        for (name, topic_id), count in some:
            topic = topics_by_id.get(topic_id)
            question = READ, TOPIC, name if topic is None else topic.name
            rule = authorizer.rule(client, *question)
            if rule.is_allowed and question[2]:
                note_answer(authorizer, client, "Fetch", question, rule, count)
