"""The messages of Kafka 4.4: one module per API, imported on first use.

A module holds ``XRequest``, ``XResponse`` and their nested structs. Where Kafka gives two different
structs of the request and the response the same name, the name of the message precedes it. The
docstring of a module lists the changes that each version of the API made.
"""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.protocol.types import Request, Response

MODULES = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    17: "sasl_handshake",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    27: "write_txn_markers",
    28: "txn_offset_commit",
    29: "describe_acls",
    30: "create_acls",
    31: "delete_acls",
    32: "describe_configs",
    33: "alter_configs",
    34: "alter_replica_log_dirs",
    35: "describe_log_dirs",
    36: "sasl_authenticate",
    37: "create_partitions",
    38: "create_delegation_token",
    39: "renew_delegation_token",
    40: "expire_delegation_token",
    41: "describe_delegation_token",
    42: "delete_groups",
    43: "elect_leaders",
    44: "incremental_alter_configs",
    45: "alter_partition_reassignments",
    46: "list_partition_reassignments",
    47: "offset_delete",
    48: "describe_client_quotas",
    49: "alter_client_quotas",
    50: "describe_user_scram_credentials",
    51: "alter_user_scram_credentials",
    52: "vote",
    53: "begin_quorum_epoch",
    54: "end_quorum_epoch",
    55: "describe_quorum",
    56: "alter_partition",
    57: "update_features",
    58: "envelope",
    59: "fetch_snapshot",
    60: "describe_cluster",
    61: "describe_producers",
    62: "broker_registration",
    63: "broker_heartbeat",
    64: "unregister_broker",
    65: "describe_transactions",
    66: "list_transactions",
    67: "allocate_producer_ids",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
    70: "controller_registration",
    71: "get_telemetry_subscriptions",
    72: "push_telemetry",
    73: "assign_replicas_to_dirs",
    74: "list_config_resources",
    75: "describe_topic_partitions",
    76: "share_group_heartbeat",
    77: "share_group_describe",
    78: "share_fetch",
    79: "share_acknowledge",
    80: "add_raft_voter",
    81: "remove_raft_voter",
    82: "update_raft_voter",
    83: "initialize_share_group_state",
    84: "read_share_group_state",
    85: "write_share_group_state",
    86: "delete_share_group_state",
    87: "read_share_group_state_summary",
    88: "streams_group_heartbeat",
    89: "streams_group_describe",
    90: "describe_share_group_offsets",
    91: "alter_share_group_offsets",
    92: "delete_share_group_offsets",
    93: "streams_group_topology_description_update",
    94: "unregister_controller",
}
"""API key → name of the module in this package."""

OWN_MODULES = {
    20_000: "explain_group",
    20_001: "announce_member",
    20_002: "explain_share_group",
}
"""API key → name of the module, for kwire's own APIs, which only kwire's tools use."""


# Without the cache, each look-up would leave a name in the interpreter's own caches.
@cache
def message_classes(api_key: int) -> "tuple[type[Request], type[Response]]":
    """The request class and the response class of an API; KeyError for an unknown API key."""
    module = MODULES.get(api_key) or OWN_MODULES[api_key]
    messages = import_module(f"{__name__}.{module}")
    name = module.title().replace("_", "")
    return getattr(messages, f"{name}Request"), getattr(messages, f"{name}Response")
