"""Share groups, the side of the partition (KIP-932): records in flight, and their persistent state.

- ``key``: a share partition, which is a partition as one share group reads it.
- ``state_batches``, ``state_records``, ``state_coordinator``: what ``__share_group_state`` keeps.
- ``persister``: reads and writes that state, on whichever broker its coordinator is.

PURE but for the persister, which waits. ``kwire.broker`` drives these parts.
"""
