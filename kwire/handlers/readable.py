"""The partition that a consumer may read: led here, or followed (``nearest_replica``)."""

from kwire.broker.fetch_sessions import PartitionKey, WantedPartition
from kwire.broker.hosted_partitions import Hosted
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext

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
        from kwire.handlers.nearest_replica import followed

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
