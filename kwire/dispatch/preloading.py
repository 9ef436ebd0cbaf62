"""The modules that a broker in a cluster imports before a client needs them.

Elsewhere, the modules for replication and coordination are imported at their first use, because a
single broker needs few of them. In a cluster each of these imports would stop the event loop for
some milliseconds. That would often happen after a failure, when many clients connect at once.

Rules:

- A worker gets the modules from the process that forks it. A broker whose metadata is in etcd
  imports them in a thread when the broker is ready.
- The modules of further APIs are imported in threads at their first request (``routing``).
- The modules of security, quotas and compaction are imported where the settings ask for them.
- The codecs of the coordinators' records are generated when the coordinators are imported. If each
  codec were generated at its first use, the event loop would wait for it.
- Imports free about 1 MB that the C library would keep, so it is asked to give that back.
"""

import ctypes
from importlib import import_module

from kwire.protocol.codec import decoder, encoder

HANDLERS = (
    *("produce", "lib.large_batches", "lib.leader_hints"),
    *("fetch", "replica_fetch", "lib.nearest_replica"),
    *("metadata", "list_offsets", "api_versions"),
    *("lib.advertised_listeners", "lib.await_elections", "lib.delayed_response"),
    *("find_coordinator", "lib.coordinators_elsewhere", "announce_member"),
    *("join_group", "sync_group", "heartbeat", "leave_group", "consumer_group_heartbeat"),
    *("offset_commit", "offset_fetch", "init_producer_id", "add_partitions_to_txn"),
    *("add_offsets_to_txn", "txn_offset_commit", "end_txn", "write_txn_markers"),
)
"""Modules of ``kwire.handlers``: the APIs of producers, consumers and other brokers."""

BROKER = (
    *(
        "groups",
        "transactions",
        "peers",
        "producer_ids",
        "delayed_response",
        "replica.alter_partition_manager",
        "replica.throttles",
    ),
    *("replica.leader_partition", "replica.follower_partition", "replica.fetchers"),
    *("remote_markers", "remote_verification", "remote_coordinators", "replica.replica_sessions"),
    "replica.offline_replicas",
)
"""Modules of ``kwire.broker``."""

COORDINATORS = ("kwire.broker.groups", "kwire.broker.transactions")
RECORDS = (
    *("kwire.coordinator.records", "kwire.coordinator.modern_records"),
    "kwire.coordinator.consumer.records",
    "kwire.coordinator.transaction.records",
)
"""Modules with ``WRITTEN``, the schemas of the records of coordinators."""

OTHERS = (
    *("kwire.connection.pipeline", "kwire.connection.mapped", "kwire.metadata.difference"),
    "kwire.log.deletions",
    *("kwire.protocol.decoding", "kwire.protocol.encoding"),
)


def preload() -> None:
    """Import the modules; takes about a tenth of a second."""
    for name in HANDLERS:
        import_module(f"kwire.handlers.{name}")
    for name in BROKER:
        import_module(f"kwire.broker.{name}")
    for name in OTHERS:
        import_module(name)
    load_coordinators()
    _trim()


def _trim() -> None:
    """Give freed memory back to the system. C libraries other than glibc have no such function."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def load_coordinators() -> None:
    """Import the modules of the coordinators and their handlers; takes some 50 milliseconds."""
    for name in COORDINATORS:
        import_module(name)
    for name in RECORDS:
        for schema, version in import_module(name).WRITTEN:
            encoder(schema, version)
            decoder(schema, version)
