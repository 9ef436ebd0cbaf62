"""Decisions about a cluster on one machine that starts again, perhaps with fewer brokers; pure.

Rules:

- A broker that has replicas must be among those that start: nobody else has their records.
- All brokers of one machine start together, so none of them runs before. Until it registers,
  each is fenced. A broker that doesn't start any more is unregistered.
- A broker that is alone has no registration as in a cluster: no incarnation, and it is never
  fenced. It leads what it has.
"""

from collections.abc import Collection

from kwire.metadata.changes import (
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ControllerElected,
    apply,
)
from kwire.metadata.image import BrokerImage, MetadataImage
from kwire.metadata.partition_change import with_broker
from kwire.metadata.registration import fence

SHOWN = 3
"""How many topics an error names."""


class ReplicasElsewhere(Exception):
    """Brokers that aren't to start have replicas; the text is one line that says what to do."""


def begin_together(image: MetadataImage, nodes: Collection[int]) -> list[Change]:
    """The changes before these brokers start; ReplicasElsewhere."""
    check_replicas(image, nodes)
    changes = fence(image, frozenset(image.brokers))
    return changes + [BrokerUnregistered(node) for node in image.brokers if node not in nodes]


def be_alone(image: MetadataImage, broker: BrokerImage) -> list[Change]:
    """The changes that make a broker of a cluster one that is alone; ReplicasElsewhere."""
    own = broker.node_id
    check_replicas(image, {own})
    changes: list[Change] = [BrokerUnregistered(node) for node in image.brokers if node != own]
    changes.append(BrokerRegistered(broker))
    registered = apply(image, changes, image.revision)
    elected = ControllerElected(own, image.controller_epoch + 1)
    return [*changes, *with_broker(registered, own), elected]


def check_replicas(image: MetadataImage, nodes: Collection[int]) -> None:
    """Raise ReplicasElsewhere if other brokers than these have replicas."""
    topics: list[str] = []
    missing: set[int] = set()
    for topic in image.topics_by_name.values():
        found = {node for one in topic.partitions for node in one.replicas if node not in nodes}
        if found:
            topics.append(topic.name)
            missing |= found
    if not missing:
        return
    more = f" and {len(topics) - SHOWN} more topic(s)" if len(topics) > SHOWN else ""
    ids = ", ".join(map(str, sorted(missing)))
    needed = max(missing) - min(nodes) + 1
    remedy = (
        f"start with kwire serve --workers {needed}; fewer workers can start once no partition is "
        "on the others"
        if min(missing) > min(nodes)
        else f"start with -o node.id={min(missing)}, as before"
    )
    raise ReplicasElsewhere(
        f"partitions of {', '.join(sorted(topics)[:SHOWN])}{more} are on node.id {ids}, which "
        f"would not start: {remedy}"
    )
