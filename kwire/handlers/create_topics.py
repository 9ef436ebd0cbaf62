"""CreateTopics: create topics, each with an answer of its own.

Behaviour: -1 partitions or replicas mean the broker's default; a replica assignment excludes both.
All topics that may be are created in one commit. A request for more than one commit may hold is
refused as a whole (POLICY_VIOLATION). The answer carries a topic's id (version 7) and
its configs (version 5). A topic that is answered can be written to.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import trio

from kwire.broker.commits import TOPICS_PER_TURN
from kwire.broker.configs import topic_configs
from kwire.broker.internal_topics import INTERNAL_TOPICS
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.metadata.changes import Change
from kwire.metadata.controller import NewTopic, RequestTooLarge, TopicCreation
from kwire.metadata.image import MetadataImage, TopicImage
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

CLUSTER_METADATA_TOPIC = "__cluster_metadata"


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """Create every topic that may be."""
    creation = _Creation(request.topics, context)
    if request.validate_only:
        await creation.decide(context.broker.image)
    else:
        try:
            await context.commit(creation.decide)
        except KafkaError as error:
            creation.fail(error)
    return CreateTopicsResponse(topics=list(creation.results.values()))


class _Creation:
    """The topics of one request; ``results`` by name are those of the last decision."""

    def __init__(self, topics: list[CreatableTopic], context: RequestContext) -> None:
        self.results: dict[str, CreatableTopicResult] = {}
        self._topics = topics
        self._names = Counter(topic.name for topic in topics)
        self._context = context
        self._configs: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    async def decide(self, image: MetadataImage) -> Sequence[Change]:
        """The changes that create every topic that may be; others have their turn in between."""
        self.results.clear()
        self._configs.clear()
        try:
            creation = TopicCreation(image, self._context.broker.random, self._partitions())
            for number, topic in enumerate(self._topics, 1):
                self._add(topic, creation)
                if number % TOPICS_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()
        except RequestTooLarge as error:
            self.results = {name: _refusal(name, error) for name in self._names}
            return []
        return creation.changes

    def _partitions(self) -> int:
        """How many partitions the request asks for; a name that is given twice asks for none."""
        default = self._context.broker.integer("num.partitions")
        total = 0
        for topic in self._topics:
            if self._names[topic.name] > 1:
                continue
            count = default if topic.num_partitions == -1 else max(topic.num_partitions, 0)
            total += len(topic.assignments) or count
        return total

    def _add(self, topic: CreatableTopic, creation: TopicCreation) -> None:
        try:
            if self._names[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            wanted = _new_topic(topic, self._context)
            created = creation.add(wanted)
        except RequestTooLarge:
            raise
        except KafkaError as error:
            self.results[topic.name] = _refusal(topic.name, error)
        else:
            self.results[topic.name] = _result(created, self._all_configs(wanted.configs))

    def fail(self, error: KafkaError) -> None:
        """The decision could not be committed: give its error to every topic that has none."""
        for name, result in self.results.items():
            if not result.error_code:
                self.results[name] = _refusal(name, error)

    def _all_configs(self, own: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """Every config of a topic that has these of its own; alike topics share one list."""
        key = tuple(own.items())
        found = self._configs.get(key)
        if found is None:
            found = self._configs[key] = [
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in topic_configs(self._context.broker, own)
            ]
        return found


def _new_topic(topic: CreatableTopic, context: RequestContext) -> NewTopic:
    """The wish for a topic with the broker's defaults filled in; KafkaError if it contradicts."""
    if topic.name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {topic.name} is prohibited."
        )
    if topic.assignments and (topic.num_partitions != -1 or topic.replication_factor != -1):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "With a manual assignment partitions and replication factor must be -1.",
        )
    assignments = {a.partition_index: a.broker_ids for a in topic.assignments}
    if len(assignments) != len(topic.assignments):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned more than once."
        )
    integer = context.broker.integer
    count, factor = topic.num_partitions, topic.replication_factor
    return NewTopic(
        topic.name,
        integer("num.partitions") if count == -1 else count,
        integer("default.replication.factor") if factor == -1 else factor,
        assignments,
        _configs(topic),
    )


def _configs(topic: CreatableTopic) -> dict[str, str]:
    if topic.name in INTERNAL_TOPICS and not topic.configs:
        # Somebody creates it before the broker does: then it shall be compacted all the same.
        return {"cleanup.policy": "compact"}
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    return {config.name: config.value or "" for config in topic.configs}


def _refusal(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message or None
    )


def _result(topic: TopicImage, configs: list[CreatableTopicConfigs]) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=configs,
    )
