"""Who is to have which partitions: the assignors of the server, by name.

Rules (of every assignor, and tested as properties):

- Each partition of a topic goes to exactly one member that subscribes to it, if there is one.
- The same question gets the same answer; asked again with the answer as what members have, it
  doesn't change.

``uniform`` shares all partitions out as evenly as subscriptions allow, and moves as few as it can.
``range`` gives each member neighbouring partitions of each topic, the same ones of topics that have
as many partitions and the same subscribers, so that they can be joined. Where racks are known both
prefer partitions with a replica in the member's rack.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kwire.coordinator.assignors.ranges import assign_ranges
from kwire.coordinator.assignors.spec import AssignmentSpec, Shares
from kwire.coordinator.assignors.uniform import assign_uniformly

ASSIGNORS: Mapping[str, Callable[[AssignmentSpec], Shares]] = MappingProxyType(
    {"uniform": assign_uniformly, "range": assign_ranges}
)
"""The assignors there are; a broker may offer some of them only."""
