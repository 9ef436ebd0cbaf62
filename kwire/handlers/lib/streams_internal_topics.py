"""The internal topics of a streams group's topology: a heartbeat that finds them missing has them
created, for the client that sends it (KIP-1071).

Rules:

- The client needs CREATE on the cluster or on each topic. Without it, none is created.
- The answer to the heartbeat still says MISSING_INTERNAL_TOPICS, with the reason if topics could
  not be created. A later heartbeat finds them there, or tries again.
- A topic that somebody else creates meanwhile is there: the next heartbeat looks at it.
- The client's quota, the operator's policy and the limits of CreateTopics apply.

Source: handleStreamsGroupHeartbeat of Kafka's KafkaApis, and AutoTopicCreationManager. Kafka
doesn't wait for the topics, and keeps the errors for the next heartbeats.
"""

from collections.abc import Mapping

from kwire.coordinator.streams.topology.configured import InternalTopic
from kwire.errors import ErrorCode
from kwire.handlers.create_topics import create_topics
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import CREATE, TOPIC
from kwire.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

API = "StreamsGroupHeartbeat"

SHOWN_ERRORS = 3
"""A status names this many topics that could not be created."""


async def create_internal_topics(
    missing: Mapping[str, InternalTopic], context: RequestContext
) -> str:
    """Create topics; returns what to add to the detail of the status, empty if all is well.

    It waits for a commit of metadata, so a handler calls it in a task (``lib.waiting``).
    """
    denied = await _denied(missing, context)
    if denied:
        return f"; Unauthorized to CREATE on topics {','.join(denied)}."
    topics = [
        CreatableTopic(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs=[CreatableTopicConfig(name=k, value=v) for k, v in topic.configs.items()],
        )
        for topic in missing.values()
    ]
    always_strict = context.mutations(0)
    results = await create_topics(topics, context, always_strict)
    failed = [
        f"{result.name} ({result.error_message or ErrorCode(result.error_code).name})"
        for result in results
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    ]
    if not failed:
        return ""
    more = f" and {len(failed) - SHOWN_ERRORS} more" if len(failed) > SHOWN_ERRORS else ""
    return f"; Creation failed: {','.join(failed[:SHOWN_ERRORS])}{more}."


async def _denied(missing: Mapping[str, InternalTopic], context: RequestContext) -> list[str]:
    """The topics that the client may not create."""
    authorizer = context.broker.authorizer
    if authorizer is None:
        return []
    from kwire.handlers.lib.authorization import Authorization

    rights = Authorization(authorizer, API, context)
    if rights.may_on_cluster(CREATE, tells_denied=False):
        return []
    allowed = await rights.allowed_names(CREATE, TOPIC, missing)
    return [name for name in missing if name not in allowed]
