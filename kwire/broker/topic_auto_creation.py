"""Topics that are created without CreateTopics: by the first use of a name, or by kwire itself.

Rules:

- The internal topics have the settings that Kafka gives them. If another request created the topic
  meanwhile, that topic is used.
- In a cluster whose metadata is in a store for several machines, these topics have as many replicas
  as the settings say. Elsewhere these topics have one replica, whatever the settings say. The
  reason: the ``server.properties`` of a cluster asks for three replicas, and with that number a
  single broker could not create the topics of its coordinators.
- The operator's policy may refuse a topic that a client names, but no internal topic, and not the
  topic of the schema registry.
"""

from collections.abc import Mapping, Sequence

import trio

from kwire.broker.commits import TOPICS_PER_TURN
from kwire.broker.proposals import NOBODY, Asker
from kwire.broker.view import TopicMaker
from kwire.config.internal_topics import (
    FACTORS,
    OFFSETS_TOPIC,
    SCHEMAS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from kwire.config.metadata_store import SETTING
from kwire.config.policies import NewTopicRequest, Policy, check
from kwire.errors import KafkaError
from kwire.metadata.changes import Change
from kwire.metadata.controller import (
    NewTopic,
    RequestTooLarge,
    TopicCreation,
    check_partition_total,
)
from kwire.metadata.image import INTERNAL_TOPICS, MetadataImage
from kwire.metadata.placement import at_once


def default_replicas(broker: TopicMaker, setting: str = "default.replication.factor") -> int:
    """The number of replicas, by ``setting``, of a topic whose creator gives no number."""
    return broker.integer(setting) if broker.setting(SETTING) else 1


def _new_topic(broker: TopicMaker, name: str) -> NewTopic:
    """A topic of this name with the broker's defaults, or with an internal topic's settings."""
    if name == OFFSETS_TOPIC:
        return NewTopic(
            name,
            broker.integer("offsets.topic.num.partitions"),
            default_replicas(broker, FACTORS[name]),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(broker.integer("offsets.topic.segment.bytes")),
            },
        )
    if name == TRANSACTIONS_TOPIC:
        return NewTopic(
            name,
            broker.integer("transaction.state.log.num.partitions"),
            default_replicas(broker, FACTORS[name]),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(
                    default_replicas(broker, "transaction.state.log.min.isr")
                ),
                "segment.bytes": str(broker.integer("transaction.state.log.segment.bytes")),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == SHARE_STATE_TOPIC:
        return NewTopic(
            name,
            broker.integer("share.coordinator.state.topic.num.partitions"),
            default_replicas(broker, FACTORS[name]),
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(
                    default_replicas(broker, "share.coordinator.state.topic.min.isr")
                ),
                "retention.ms": "-1",
                "segment.bytes": str(broker.integer("share.coordinator.state.topic.segment.bytes")),
            },
        )
    if name == SCHEMAS_TOPIC:
        configs = {"cleanup.policy": "compact", "compression.type": "producer"}
        return NewTopic(name, 1, default_replicas(broker), configs=configs)
    return NewTopic(name, broker.integer("num.partitions"), default_replicas(broker))


def check_policy(policy: Policy | None, topic: NewTopic) -> None:
    """Raise KafkaError (POLICY_VIOLATION) for a topic that the operator's policy refuses."""
    check(policy, NewTopicRequest(*topic))


async def create_if_missing(broker: TopicMaker, name: str) -> None:
    """Create a topic with the broker's defaults; KafkaError like ``create_topic``."""
    for error in (await create_missing(broker, [name])).values():
        raise error


async def create_missing(
    broker: TopicMaker,
    names: Sequence[str],
    asker: Asker = NOBODY,
    configs: Mapping[str, str] | None = None,
) -> dict[str, KafkaError]:
    """Create the topics that don't exist, in one commit, with the broker's defaults.

    ``configs`` are the topics' own, in the place of those of ``_new_topic``.

    Returns the errors of the topics that can't be created. Raises the KafkaError of
    ``Broker.commit``, and RequestTooLarge for more topics than one request may create. In both
    cases no topic is created.
    """
    refused: dict[str, KafkaError] = {}

    async def decide(image: MetadataImage) -> Sequence[Change]:
        refused.clear()
        missing = [name for name in names if name not in image.topics_by_name]
        check_partition_total(len(missing))  # each topic has at least one partition
        wanted = [_new_topic(broker, name) for name in missing]
        if configs is not None:
            wanted = [topic._replace(configs=configs) for topic in wanted]
        creation = TopicCreation(image, broker.random, sum(topic.partitions for topic in wanted))
        for number, topic in enumerate(wanted, 1):
            try:
                if topic.name not in INTERNAL_TOPICS and topic.name != SCHEMAS_TOPIC:
                    check_policy(broker.create_topic_policy, topic)
                at_once(creation.add(topic))
            except RequestTooLarge:
                raise
            except KafkaError as error:
                refused[topic.name] = error.to_keep()
            if number % TOPICS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
        return creation.changes

    await broker.commit(decide, asker)
    return refused
