"""The topic configs that decide about replication; they are the same on every broker; pure.

Rule: any broker may decide about any partition, so these values come from the image alone. A
topic's own config comes first, then the dynamic default of all brokers, then Kafka's default. A
broker's settings file counts only once: a new cluster takes its dynamic defaults from its first
broker. So the leader and the broker that decides which replicas may be elected use the same
``min.insync.replicas`` (KIP-966). If brokers have dynamic values of their own, the lowest one
counts.

Source: ConfigurationControlManager of Kafka.
"""

from collections.abc import Mapping
from types import MappingProxyType

from kwire.metadata.image import EMPTY, ConfigResource, ConfigResourceType, MetadataImage

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"

CLUSTER_WIDE = (MIN_ISR, UNCLEAN)
"""Settings of brokers that a new cluster gets as dynamic defaults."""


class ReplicationConfigs:
    """The replication configs of an image's topics; ``overrides`` has configs that replace some."""

    def __init__(
        self,
        image: MetadataImage,
        overrides: Mapping[ConfigResource, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        self._configs = image.configs
        self._overrides = overrides
        defaults = self._of(ConfigResourceType.BROKER, "")
        self._unclean = defaults.get(UNCLEAN, "false")
        own = [self._of(ConfigResourceType.BROKER, str(node)) for node in image.brokers]
        values = [defaults.get(MIN_ISR, "1"), *(one[MIN_ISR] for one in own if MIN_ISR in one)]
        self._min_isr = min(map(int, values))

    def min_isr(self, topic: str) -> int:
        """How many replicas have to be in sync for acks=all, whatever the replication factor."""
        found = self._of(ConfigResourceType.TOPIC, topic).get(MIN_ISR)
        return self._min_isr if found is None else int(found)

    def allows_unclean(self, topic: str) -> bool:
        """Whether a replica that lacks records may lead, if no other replica can."""
        found = self._of(ConfigResourceType.TOPIC, topic).get(UNCLEAN, self._unclean)
        return found.strip().lower() == "true"

    def _of(self, kind: ConfigResourceType, name: str) -> Mapping[str, str]:
        found = self._overrides.get((kind, name))
        return self._configs.get((kind, name), EMPTY) if found is None else found
