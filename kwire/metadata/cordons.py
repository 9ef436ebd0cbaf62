"""Brokers that get no new replicas, because all their data directories are cordoned (KIP-1066).

A broker registers whether its own file says so. What an administrator has set since counts more:
the configs of all brokers are in the image.
"""

from collections.abc import Iterator

from kwire.config.cordoned import ALL, NAME
from kwire.metadata.image import BrokerImage, ConfigResourceType, MetadataImage


def is_cordoned(image: MetadataImage, broker: BrokerImage) -> bool:
    """Whether all data directories of a broker are cordoned."""
    text = image.config(ConfigResourceType.BROKER, str(broker.node_id)).get(NAME)
    if text is None:
        return broker.is_cordoned
    # Some may be of directories that the broker no longer has.
    entries = [entry for one in text.split(",") if (entry := one.strip())]
    return entries == [ALL] or (bool(broker.log_dirs) and set(broker.log_dirs) <= set(entries))


def brokers_with_room(image: MetadataImage) -> Iterator[BrokerImage]:
    """The brokers that may get new replicas."""
    return (broker for broker in image.brokers.values() if not is_cordoned(image, broker))


def manual_refusal(node_id: int) -> str:
    """What a client reads that wants a new replica on such a broker."""
    return (
        f"The manual partition assignment includes broker {node_id}, but all its log directories "
        "are cordoned."
    )
