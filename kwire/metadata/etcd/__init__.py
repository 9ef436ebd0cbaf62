"""The metadata store of a cluster: one log of commits on etcd, version 3.4 or newer.

- ``gateway``: the calls of etcd's JSON gateway; ``http_gateway`` makes them, with ``http_client``.
- ``advice``: what to do about an endpoint that waiting can't mend.
- ``keys`` and ``encoding``: the names of the keys, and the format of their values.
- ``transactions``: the parts of etcd's requests and answers.
- ``following``: the watch of the keys, and the commits that it has brought.
- ``log``: writes and reads commits; ``images``: writes and reads snapshots, and does the upkeep.
- ``leases``: sessions and the hold of the controller.
- ``etcd_store``: implements the interface ``kwire.metadata.store.MetadataStore`` with these
  modules.

docs/decisions/0027-one-log-of-commits-on-etcd.md has the keys and the reasons.
"""
