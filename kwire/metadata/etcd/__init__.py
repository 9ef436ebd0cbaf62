"""The metadata store of a cluster: one log of commits on etcd, version 3.4 or newer.

- ``gateway``: what the store asks of etcd's JSON gateway; ``http_gateway`` asks it,
  by ``http_client``.
- ``keys`` and ``encoding``: what the keys are called, and what their values look like.
- ``transactions``: the parts of etcd's requests and answers.
- ``following``: the watch, which is a hint, and what was learnt from it.
- ``log``: commits and their reading; ``images``: snapshots, their reading, and upkeep.
- ``leases``: sessions and the hold of the controller.
- ``etcd_store``: all of it behind the interface ``kwire.metadata.store.MetadataStore``.

docs/decisions/0027-one-log-of-commits-on-etcd.md has the keys and the reasons.
"""
