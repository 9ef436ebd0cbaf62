"""Consumer groups of the next generation (KIP-848): the server assigns, members reconcile.

``group`` holds the state of a group. ``reconciliation`` moves a member from its present partitions
to its target. ``assignors`` compute the targets. ``heartbeat`` is the operation of a member.
``coordinator`` has all groups of one coordinator, and is the entry point.
"""
