"""CreateTopics: creates topics, each with its own result.

Behavior: -1 partitions or replicas mean the broker's default; a replica assignment excludes both.
The operator's policy may refuse a topic (``config.policies``). All allowed topics are created in
one commit. A request beyond the limit of one commit is refused as a whole (POLICY_VIOLATION). The
answer carries a topic's id (version 7) and its configs (version 5). After the answer, clients can
write to the topic.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kwire.broker.configs import topic_configs
from kwire.broker.topic_auto_creation import check_policy, default_replicas
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.metadata_commits import GivesWay, commit_in_slices, in_slices
from kwire.handlers.lib.rights import CREATE, DESCRIBE_CONFIGS, FAILED, TOPIC, Serve, each, right
from kwire.handlers.lib.slices import free_in_slices, give_way, pieces
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.changes import Change
from kwire.metadata.config_checks import check_number
from kwire.metadata.controller import (
    NewTopic,
    RequestTooLarge,
    TopicCreation,
    check_partition_total,
)
from kwire.metadata.image import INTERNAL_TOPICS, MetadataImage, TopicImage
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from kwire.broker.quotas import Mutations
    from kwire.handlers.lib.authorization import Authorization

CLUSTER_METADATA_TOPIC = "__cluster_metadata"


_NOT_READ = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


CONFIGS_SINCE = 5
STRICT_SINCE = 6
"""The first version with the error THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


@in_task
async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    """Create every topic that is allowed."""
    mutations = context.mutations(STRICT_SINCE)
    results = await create_topics(
        request.topics, context, mutations, validate_only=request.validate_only
    )
    wait_ms = 0 if mutations is None else mutations.wait_ms()
    return CreateTopicsResponse(throttle_time_ms=wait_ms, topics=results)


async def create_topics(
    topics: list[CreatableTopic],
    context: RequestContext,
    mutations: "Mutations | None",
    *,
    validate_only: bool = False,
) -> list[CreatableTopicResult]:
    """Create topics for a client that may do so; ``mutations`` counts them for its quota.

    The results are in the order of the topics. A topic's error is in its result.
    """
    creation = _Creation(context, mutations)
    try:
        await creation.read(topics)
        await commit_in_slices(context, creation.decide, validate_only=validate_only)
    except RequestTooLarge as error:
        await creation.refuse_all(error.to_keep())
    except KafkaError as error:
        await creation.fail(error.to_keep())
    results = await creation.results()
    free_in_slices(creation.outcomes, context.work)
    free_in_slices(creation.wanted, context.work)
    return results


class _Creation:
    """The topics of one request: ``wanted`` by name, and the ``outcomes`` of the last decision."""

    def __init__(self, context: RequestContext, mutations: "Mutations | None") -> None:
        self.outcomes: dict[str, TopicImage | KafkaError] = {}
        self.mutations = mutations
        self.wanted: dict[str, NewTopic | KafkaError] = {}
        self._partitions = 0
        self._context = context

    async def read(self, topics: list[CreatableTopic]) -> None:
        """Read the request; RequestTooLarge. A name that is given twice counts no partitions."""
        work = self._context.work
        default = self._context.broker.integer("num.partitions")
        for topic in topics:
            await work.give_way()
            is_named_twice = topic.name in self.wanted
            self.outcomes[topic.name] = self.wanted[topic.name] = (
                KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                if is_named_twice
                else _NOT_READ
            )
        for topic in topics:
            if self.wanted[topic.name] is _NOT_READ:
                count = default if topic.num_partitions == -1 else max(topic.num_partitions, 0)
                self._partitions += len(topic.assignments) or count
                check_partition_total(self._partitions)
                await work.give_way()
                self.wanted[topic.name] = _wish(topic, self._context)

    async def decide(self, image: MetadataImage, work: GivesWay) -> Sequence[Change]:
        """The changes that create every allowed topic; RequestTooLarge."""
        allow, random = None, self._context.broker.random
        if self.mutations is not None:
            self.mutations.start_decision()
            allow = self.mutations.count_partitions
        creation = TopicCreation(image, random, self._partitions, allow)
        for name, wanted in self.wanted.items():
            if isinstance(wanted, KafkaError):
                self.outcomes[name] = wanted
                continue
            await work.give_way()
            try:
                check_policy(self._context.broker.create_topic_policy, wanted)
                self.outcomes[name] = await in_slices(creation.add(wanted), work)
            except RequestTooLarge:
                free_in_slices(creation.changes, self._context.work)
                raise
            except KafkaError as error:
                self.outcomes[name] = error.to_keep()
        return creation.changes

    async def refuse_all(self, error: KafkaError) -> None:
        """Give every topic the error of the request."""
        await self._replace_outcomes(error, lambda outcome: True)

    async def fail(self, error: KafkaError) -> None:
        """Give the error of a failed commit to every topic without an error."""
        await self._replace_outcomes(
            error, lambda outcome: outcome is _NOT_READ or not isinstance(outcome, KafkaError)
        )

    async def _replace_outcomes(
        self, error: KafkaError, to: Callable[[TopicImage | KafkaError], bool]
    ) -> None:
        """Give the topics with such an outcome an error."""
        work, outcomes = self._context.work, self.outcomes
        for piece in pieces(list(outcomes)):
            await work.give_way()
            for name in piece:
                if to(outcomes[name]):
                    outcomes[name] = error

    async def results(self) -> list[CreatableTopicResult]:
        """The result of every topic."""
        work = self._context.work
        without_own: list[CreatableTopicConfigs] | None = None
        results = []
        for name, outcome in self.outcomes.items():
            await work.give_way()
            if isinstance(outcome, KafkaError):
                results.append(_refusal(name, outcome))
                continue
            wanted = self.wanted[name]
            assert isinstance(wanted, NewTopic)
            configs = None if wanted.configs else without_own
            if configs is None:
                await work.give_way()
                configs = _described(wanted, self._context)
                if not wanted.configs:
                    without_own = configs
            results.append(_result(outcome, configs))
        return results


def _wish(topic: CreatableTopic, context: RequestContext) -> NewTopic | KafkaError:
    try:
        return _new_topic(topic, context)
    except KafkaError as error:
        return error.to_keep()


def _new_topic(topic: CreatableTopic, context: RequestContext) -> NewTopic:
    """A requested topic with the broker's defaults; KafkaError for contradictory fields."""
    if topic.name == CLUSTER_METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {topic.name} is prohibited."
        )
    if topic.assignments and (topic.num_partitions != -1 or topic.replication_factor != -1):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "With a manual assignment partitions and replication factor must be -1.",
        )
    # Of up to 10,000 partitions: without a step of Python for each.
    assignments = dict(map(attrgetter("partition_index", "broker_ids"), topic.assignments))
    if len(assignments) != len(topic.assignments):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned more than once."
        )
    integer = context.broker.integer
    count, factor = topic.num_partitions, topic.replication_factor
    return NewTopic(
        topic.name,
        integer("num.partitions") if count == -1 else count,
        default_replicas(context.broker) if factor == -1 else factor,
        assignments,
        _configs(topic),
    )


def _configs(topic: CreatableTopic) -> dict[str, str]:
    check_number(len(topic.configs))
    if topic.name in INTERNAL_TOPICS and not topic.configs:
        # If a client creates this topic before the broker does, it has to be compacted, too.
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


def _described(wanted: NewTopic, context: RequestContext) -> list[CreatableTopicConfigs]:
    """The configs of a new topic."""
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in topic_configs(context.broker, wanted.configs)
    ]


@right("without DESCRIBE_CONFIGS its configs stay hidden")
async def _hide_configs(request: CreateTopicsRequest, rights: "Authorization", serve: Serve) -> Any:
    response: CreateTopicsResponse = await serve(request)
    _, hidden = await rights.split_by_name(
        response.topics, DESCRIBE_CONFIGS, TOPIC, lambda one: one.name, tells_denied=False
    )
    for piece in pieces(hidden):
        await give_way(rights.context.work)
        for result in piece:
            if not result.error_code:
                result.topic_config_error_code = FAILED[TOPIC]
                result.num_partitions = result.replication_factor = -1
                result.configs = None if rights.context.api_version >= CONFIGS_SINCE else []
    return response


RIGHTS = (each("topics", CREATE, instead=CREATE, is_distinct=True), _hide_configs)
