"""Samples about share groups: the records in flight, what became of them, and dead letters.

The share partitions in the memory of this broker are counted, which leads them. The first groups
and partitions have series of their own, as ``kwire.metrics.max.groups`` and ``….partitions`` say.
"""

from kwire.broker.broker import Broker
from kwire.broker.share_history import ShareCounts
from kwire.budget.slices import Slices
from kwire.metrics.samples import Samples
from kwire.share.partition import Acknowledge

_GROUPS = "kafka_server_sharegroupmetrics_"
_PARTITIONS = "kafka_server_sharepartitionmetrics_"
_OUTCOMES = {
    "delivered": "acquired",
    "redelivered": "redelivered",
    "acknowledged": "acknowledged",
    "released": "released",
    "expired": "expired",
    "archived": "archived",
}
"""The field of ``ShareCounts`` for each outcome."""

_DEAD_LETTERS = {
    "deadletterqueuerecordcount": "dead_letters",
    "deadletterqueuetotalproducerequests": "dead_letter_requests",
    "deadletterqueuefailedproducerequests": "dead_letter_failures",
}
_TYPES = (Acknowledge.ACCEPT, Acknowledge.RELEASE, Acknowledge.REJECT, Acknowledge.RENEW)


async def gather_share_groups(broker: Broker, slices: Slices, samples: Samples) -> None:
    """Add the samples of share groups; none before a member has fetched."""
    if "share_partitions" not in vars(broker):
        return
    manager = broker.share_partitions
    for kind in _TYPES:
        count = manager.acknowledgements[kind]
        samples.put(f"{_GROUPS}recordacknowledgements_total", count, kind.name.capitalize())
    groups = list(manager.history.counts())
    most = broker.integer("kwire.metrics.max.groups")
    for group_id, counts in groups[:most]:
        await slices.give_way()
        _put_counts(group_id, counts, samples)
    samples.put("kwire_metrics_left_out", max(0, len(groups) - most), "share groups")
    await _partitions(broker, slices, samples)


def _put_counts(group_id: str, counts: ShareCounts, samples: Samples) -> None:
    for outcome, field in _OUTCOMES.items():
        samples.put("kwire_share_group_records_total", getattr(counts, field), group_id, outcome)
    for name, field in _DEAD_LETTERS.items():
        samples.put(f"{_GROUPS}{name}_total", getattr(counts, field), group_id)


async def _partitions(broker: Broker, slices: Slices, samples: Samples) -> None:
    loaded = broker.share_partitions.loaded()
    most = broker.integer("kwire.metrics.max.partitions")
    for served in loaded[:most]:
        await slices.give_way()
        share, partition = served.share, served.partition
        labels = share.key.group_id, partition.topic, str(partition.index)
        waiting = max(0, partition.high_watermark - share.next_new) + share.available
        samples.put("kwire_share_group_waiting", waiting, *labels)
        samples.put(f"{_PARTITIONS}inflightmessagecount", share.in_flight, *labels)
        samples.put(f"{_PARTITIONS}inflightbatchcount", len(share.runs), *labels)
        samples.put(f"{_PARTITIONS}acquisitionlocktimeout_total", served.expired, *labels)
    samples.put("kwire_metrics_left_out", max(0, len(loaded) - most), "share partitions")
