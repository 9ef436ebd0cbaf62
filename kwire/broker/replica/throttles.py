"""Throttles of replication: they limit how fast replicas that are behind are copied (KIP-73).

Rules:

- A throttle has a rate in bytes per second: ``leader.replication.throttled.rate`` of the broker
  that leads, ``follower.replication.throttled.rate`` of the broker that follows. It applies to the
  replicas in a topic's ``….replication.throttled.replicas``: pairs ``partition:broker``, or ``*``.
  kafka-reassign-partitions sets all four configs, and removes them at the end.
- The bytes of all these replicas count. But only replicas out of sync are held back, so producers
  never wait for a throttle.
- Each copied byte reserves its share of time. A throttle holds back while more than ``WINDOW_S`` is
  reserved ahead. So the rate is right over seconds, and no pause is long.

Source: ReplicationQuotaManager, ReplicaManager.shouldLeaderThrottle of Kafka.
"""

from typing import Protocol

from kwire.metadata.image import ConfigResourceType, MetadataImage

WINDOW_S = 0.5
LONGEST_PAUSE_S = 1.0
MOST_TEXTS = 100
"""For this many topics, the parsed lists of replicas are cached: each replica looks into its list
at each fetch."""

MOST_DIGITS = 11
"""A number with more digits can't name a partition or a broker, and Python refuses to parse very
long ones."""

LEADER, FOLLOWER = "leader", "follower"


class ThrottledBroker(Protocol):
    """The part of the broker that the throttles need."""

    node_id: int
    image: MetadataImage


class Throttle:
    """The throttle of one direction; ``rate`` is in bytes per second."""

    def __init__(self, broker: ThrottledBroker, side: str) -> None:
        self.rate = float("inf")
        self._broker = broker
        self._replicas = f"{side}.replication.throttled.replicas"
        self._taken_to_s = 0.0
        self._parsed: dict[str, frozenset[int] | None] = {}

    def names(self, topic: str, index: int) -> bool:
        """Whether the replica of a partition on this broker is throttled."""
        text = self._broker.image.config(ConfigResourceType.TOPIC, topic).get(self._replicas, "")
        if not text:
            return False
        if text not in self._parsed:
            if len(self._parsed) >= MOST_TEXTS:
                self._parsed.clear()
            self._parsed[text] = self._partitions(text)
        partitions = self._parsed[text]
        return partitions is None or index in partitions

    def _partitions(self, text: str) -> frozenset[int] | None:
        """The partitions on this broker; None stands for all."""
        if text.strip() == "*":
            return None
        pairs = (pair.strip().split(":") for pair in text.split(",") if pair.strip())
        numbers = ((int(index[:MOST_DIGITS]), int(node[:MOST_DIGITS])) for index, node in pairs)
        return frozenset(index for index, node in numbers if node == self._broker.node_id)

    def record(self, size_bytes: int, now_s: float) -> None:
        """Count bytes that were copied."""
        assert size_bytes >= 0, size_bytes
        if size_bytes:
            took_s = size_bytes / self.rate if self.rate else float("inf")
            self._taken_to_s = max(self._taken_to_s, now_s) + took_s

    def pause_s(self, now_s: float) -> float:
        """How long replicas out of sync are held back; 0 if they aren't."""
        if not self.rate:
            return LONGEST_PAUSE_S
        return min(max(self._taken_to_s - now_s - WINDOW_S, 0.0), LONGEST_PAUSE_S)

    def set_rate(self, rate: float) -> None:
        """Take a new rate; bytes that were copied before no longer count."""
        if rate != self.rate:
            self.rate, self._taken_to_s = rate, 0.0


class Throttles:
    """Both directions of one broker."""

    def __init__(self, broker: ThrottledBroker) -> None:
        self.leader = Throttle(broker, LEADER)
        self.follower = Throttle(broker, FOLLOWER)

    def apply_rates(self, rates: dict[str, float]) -> None:
        """Take the rates that are configured."""
        for side, throttle in ((LEADER, self.leader), (FOLLOWER, self.follower)):
            throttle.set_rate(rates.get(side, float("inf")))


def rates_of(image: MetadataImage, node_id: int) -> dict[str, float]:
    """The configured rates of a broker in bytes per second, by direction."""
    configs = dict(image.config(ConfigResourceType.BROKER, ""))
    configs.update(image.config(ConfigResourceType.BROKER, str(node_id)))
    names = ((side, f"{side}.replication.throttled.rate") for side in (LEADER, FOLLOWER))
    return {side: float(configs[name]) for side, name in names if name in configs}


def updated(before: Throttles | None, broker: ThrottledBroker) -> Throttles | None:
    """The throttles by the broker's image; None if no rate is configured."""
    rates = rates_of(broker.image, broker.node_id)
    if not rates:
        return None
    throttles = before or Throttles(broker)
    throttles.apply_rates(rates)
    return throttles
