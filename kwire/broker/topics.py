"""Topics that come into being without CreateTopics: by the first use of a name, and kwire's own.

Rules: the internal topics have the settings that Kafka gives them. A topic that somebody else
created meanwhile is as good.
"""

from kwire.broker.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kwire.broker.view import TopicMaker
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.controller import NewTopic, create_topic


def _new_topic(broker: TopicMaker, name: str) -> NewTopic:
    """How a topic of this name is created when nobody said how."""
    if name == OFFSETS_TOPIC:
        return NewTopic(
            name,
            broker.integer("offsets.topic.num.partitions"),
            broker.integer("offsets.topic.replication.factor"),
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
            broker.integer("transaction.state.log.replication.factor"),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(broker.integer("transaction.state.log.min.isr")),
                "segment.bytes": str(broker.integer("transaction.state.log.segment.bytes")),
                "unclean.leader.election.enable": "false",
            },
        )
    return NewTopic(
        name, broker.integer("num.partitions"), broker.integer("default.replication.factor")
    )


async def create_if_missing(broker: TopicMaker, name: str) -> None:
    """Create a topic with the broker's defaults; KafkaError as ``create_topic`` raises it."""
    try:
        await broker.commit(
            lambda image: (
                []
                if name in image.topics_by_name
                else create_topic(image, _new_topic(broker, name), broker.random)
            )
        )
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
