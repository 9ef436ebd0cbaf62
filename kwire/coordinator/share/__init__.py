"""Share groups: the side of the group (KIP-932). The partition's side is ``kwire.share``.

PURE, as all coordinators: (request, now) → records, reply, and work; ``replay(record)``. What a
share group has in common with a consumer group, it takes from ``kwire.coordinator.consumer``.
"""
