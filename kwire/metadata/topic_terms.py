"""What the configs of topics say about replication, as every broker sees it; pure.

Rule: any broker decides about any partition, so these values come from the image alone: a topic's
own config counts first, then the dynamic default of all brokers, then Kafka's default. Values in a
broker's own file count only through the dynamic default that a new cluster gets from its first
broker. So ``min.insync.replicas`` can't be lower for the leader than for the one who decides which
replicas are eligible (KIP-966).

Source: ConfigurationControlManager of Kafka.
"""

from collections.abc import Mapping

from kwire.metadata.image import ConfigResourceType, MetadataImage

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"

CLUSTER_WIDE = (MIN_ISR, UNCLEAN)
"""Settings of brokers that a new cluster gets as dynamic defaults."""


class TopicTerms:
    """The replication configs of an image's topics."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._defaults = image.config(ConfigResourceType.BROKER, "")

    def min_isr(self, topic: str) -> int:
        """How many replicas have to be in sync for acks=all, whatever the replication factor."""
        return int(self._value(topic, MIN_ISR, "1"))

    def allows_unclean(self, topic: str) -> bool:
        """Whether a replica may lead that lacks records, if no other can."""
        return self._value(topic, UNCLEAN, "false").lower() == "true"

    def _value(self, topic: str, name: str, default: str) -> str:
        configs: Mapping[str, str] = self._image.config(ConfigResourceType.TOPIC, topic)
        found = configs.get(name)
        return self._defaults.get(name, default) if found is None else found
