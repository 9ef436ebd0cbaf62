"""CreateTopics: create topics, each with an answer of its own.

Behaviour: -1 partitions or replicas mean the broker's default; a replica assignment excludes both.
The answer carries the topic's id (version 7) and its configs (version 5). A topic that is answered
can be written to.
"""

from kwire.broker.configs import topic_configs
from kwire.broker.topics import INTERNAL_TOPICS
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.metadata.changes import Change, TopicCreated
from kwire.metadata.controller import NewTopic, create_topic
from kwire.metadata.image import TopicImage
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """Create every topic that may be."""
    names = [topic.name for topic in request.topics]
    results = []
    for name in dict.fromkeys(names):
        topic = next(t for t in request.topics if t.name == name)
        try:
            if names.count(name) > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            results.append(await _create(topic, context, validate_only=request.validate_only))
        except KafkaError as error:
            results.append(
                CreatableTopicResult(
                    name=name, error_code=error.code, error_message=error.message or None
                )
            )
    return CreateTopicsResponse(topics=results)


async def _create(
    topic: CreatableTopic, context: RequestContext, *, validate_only: bool
) -> CreatableTopicResult:
    broker = context.broker
    wanted = _new_topic(topic, context)
    if validate_only:
        created = _created(create_topic(broker.image, wanted, broker.random))
        return _result(created, context, configs=False)
    await broker.commit(lambda image: create_topic(image, wanted, broker.random))
    return _result(broker.image.topics_by_name[topic.name], context, configs=True)


def _created(changes: list[Change]) -> TopicImage:
    return next(change.topic for change in changes if isinstance(change, TopicCreated))


def _new_topic(topic: CreatableTopic, context: RequestContext) -> NewTopic:
    if topic.name in INTERNAL_TOPICS and not topic.configs:
        # Somebody creates it before the broker does: then it shall be compacted all the same.
        configs = {"cleanup.policy": "compact"}
    else:
        configs = _configs(topic)
    if topic.assignments and (topic.num_partitions != -1 or topic.replication_factor != -1):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "With a manual assignment partitions and replication factor must be -1.",
        )
    integer = context.broker.integer
    count, factor = topic.num_partitions, topic.replication_factor
    assignments = {a.partition_index: a.broker_ids for a in topic.assignments}
    if len(assignments) != len(topic.assignments):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned more than once."
        )
    return NewTopic(
        topic.name,
        integer("num.partitions") if count == -1 else count,
        integer("default.replication.factor") if factor == -1 else factor,
        assignments,
        configs,
    )


def _configs(topic: CreatableTopic) -> dict[str, str]:
    configs: dict[str, str] = {}
    for config in topic.configs:
        if config.value is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Null value not supported for topic configs: {config.name}",
            )
        if config.name in configs:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Duplicate config: {config.name}")
        configs[config.name] = config.value
    return configs


def _result(topic: TopicImage, context: RequestContext, *, configs: bool) -> CreatableTopicResult:
    entries = topic_configs(context.broker, topic.name) if configs else ()
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id if configs else bytes(16),
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                name=entry.setting.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.setting.is_sensitive,
            )
            for entry in entries
        ],
    )
