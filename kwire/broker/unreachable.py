"""The brokers whose replicas are offline; known when the image changes, not for each request."""

from kwire.metadata.image import MetadataImage


def unreachable_brokers(
    image: MetadataImage,
    before: MetadataImage | None = None,
    known: frozenset[int] = frozenset(),
) -> frozenset[int]:
    """The brokers that are fenced, and those that have replicas although they left the cluster.

    ``known`` are those of the image ``before``. Who left is looked for among all partitions only
    when other brokers are registered.
    """
    brokers = image.brokers
    fenced = frozenset(node for node, broker in brokers.items() if broker.is_fenced)
    if before is not None and before.brokers.keys() == brokers.keys():
        return fenced | known.difference(brokers)
    left = {
        node
        for topic in image.topics_by_name.values()
        for partition in topic.partitions
        for node in partition.replicas
        if node not in brokers
    }
    return fenced | left
