"""Applies the records of streams groups to the state; the rules are those of the frame.

A group's topology has a record of its own, whose tombstone comes after that of the group.
"""

from kwire.coordinator.modern_records import GroupKey
from kwire.coordinator.replaying import Replaying
from kwire.coordinator.streams.group import StreamsGroup, Topology
from kwire.coordinator.streams.records import StreamsGroupTopologyValue, topology


def _topology(group: StreamsGroup, key: GroupKey, value: StreamsGroupTopologyValue | None) -> None:
    group.topology = None if value is None else Topology(value)


STREAMS_GROUPS = Replaying(StreamsGroup, {topology: _topology})
