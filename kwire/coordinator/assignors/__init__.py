"""The server's assignors by name: an assignor shares partitions out among members.

Rules (of every assignor, and tested as properties):

- Each partition goes to exactly one member that subscribes to its topic, if there is one.
- The same input gives the same assignment. If members already have this assignment, the assignor
  gives it again.

``uniform`` shares all partitions out as evenly as subscriptions allow, and moves as few as it can.
``range`` gives each member neighboring partitions of each topic. If topics have the same number of
partitions and the same subscribers, a member gets the same indexes of all of them, so that they can
be joined. If racks are known, both prefer partitions with a replica in the member's rack.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kwire.coordinator.assignors.ranges import assign_ranges
from kwire.coordinator.assignors.spec import AssignmentSpec, Shares
from kwire.coordinator.assignors.uniform import assign_uniformly

ASSIGNORS: Mapping[str, Callable[[AssignmentSpec], Shares]] = MappingProxyType(
    {"uniform": assign_uniformly, "range": assign_ranges}
)
"""All assignors of kwire; a broker may offer only some of them."""
