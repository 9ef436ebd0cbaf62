"""How far share groups are in their partitions, and how many records they have left (KIP-1226).

Rules:

- A lag counts the records after a partition's start offset that no member has finished. It is
  unknown if the leader doesn't know a start offset yet, or gives no answer.
- The group's ``share.isolation.level`` says which records count.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from kwire.broker.group_state_work import read_summaries
from kwire.broker.latest_offsets import LatestOffsetsBroker, Place, latest_offsets
from kwire.errors import KafkaError
from kwire.metadata.image import ConfigResourceType
from kwire.share.key import SharePartitionKey
from kwire.share.persister import Persister
from kwire.share.state_coordinator import StateSummary


class ShareLagBroker(LatestOffsetsBroker, Protocol):
    """A broker, for the lag of share groups."""

    @property
    def persister(self) -> Persister:
        """Reads and writes persistent states."""


class ShareLag(NamedTuple):
    """How far a group is in a partition, or why that can't be told; the lag, if it is known."""

    summary: StateSummary | KafkaError
    lag: int | None


async def share_lags(
    broker: ShareLagBroker, group_id: str, places: Mapping[SharePartitionKey, Place]
) -> dict[SharePartitionKey, ShareLag]:
    """The lag of one group in each of these partitions; ``places`` has their names."""
    summaries = await read_summaries(broker.persister, places)
    begun = [
        places[key]
        for key, summary in summaries.items()
        if isinstance(summary, StateSummary) and summary.start_offset >= 0
    ]
    own = broker.image.config(ConfigResourceType.GROUP, group_id)
    read_committed = own.get("share.isolation.level") == "read_committed"
    ends = await latest_offsets(broker, begun, read_committed=read_committed)
    found = {}
    for key, summary in summaries.items():
        found[key] = ShareLag(summary, _lag(summary, ends.get(places[key])))
    return found


def _lag(summary: StateSummary | KafkaError, end_offset: int | None) -> int | None:
    if isinstance(summary, KafkaError) or end_offset is None:
        return None
    if summary.delivery_complete_count < 0:
        return None
    return end_offset - summary.start_offset - summary.delivery_complete_count
