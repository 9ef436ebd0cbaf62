"""Consumer groups of the next generation (KIP-848): the server assigns, members reconcile.

``group`` is what is known of a group, ``reconciliation`` how a member gets from what it has to what
it is to have, ``assignors`` who is to have what, ``heartbeat`` the operation of a member,
``coordinator`` all groups of one coordinator and the way in.
"""
