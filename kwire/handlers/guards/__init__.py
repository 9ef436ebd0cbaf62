"""The rights that each API needs. With an authorizer, a guard runs before the API's handler.

Rules:

- Every API has a row in ``GUARDS``. A guard makes the checks of Kafka's KafkaApis. It gives the
  handler only the elements that the client may use, and adds errors for the others. It removes from
  a response what the client may not see.
- Without an authorizer, no guard runs and none is imported.
- The fast paths of Produce and Fetch ask the authorizer themselves. They leave a request to the
  guard if the client may not do all of it.
- An API without a guard is refused, so that nobody can forget the guard of a new API.
"""

from importlib import import_module
from typing import Any

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers import APIS, OWN_APIS, route
from kwire.handlers.guards.authorization import Authorization
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.waiting import at_once_or_later
from kwire.protocol.messages import MODULES, OWN_MODULES

FOR_EVERYBODY = {
    "api_versions": "a client asks before it can know anything",
    "get_telemetry_subscriptions": "it tells nothing about the cluster",
    "expire_delegation_token": "its handler asks for the owner and the renewers",
    "push_telemetry": "the broker says which metrics it wants",
    "renew_delegation_token": "its handler asks for the owner and the renewers",
    "sasl_authenticate": "it says who the client is",
    "sasl_handshake": "it says who the client is",
}
"""The APIs that need no right, each with the reason."""

GUARDS = {
    "administration": (
        *("alter_client_quotas", "alter_partition_reassignments"),
        *("alter_user_scram_credentials", "create_delegation_token", "describe_client_quotas"),
        *("describe_delegation_token", "describe_user_scram_credentials"),
        *("list_partition_reassignments", "unregister_broker"),
    ),
    "cluster": (
        *("announce_member", "alter_configs", "alter_replica_log_dirs", "create_acls"),
        *("delete_acls", "describe_acls"),
        *("describe_configs", "describe_log_dirs", "describe_quorum", "elect_leaders"),
        *("explain_group", "incremental_alter_configs", "list_config_resources"),
        "update_features",
    ),
    "groups": (
        *("consumer_group_describe", "consumer_group_heartbeat", "delete_groups"),
        *("describe_groups", "find_coordinator", "heartbeat", "join_group", "leave_group"),
        *("list_groups", "sync_group"),
    ),
    "metadata": ("describe_cluster", "describe_topic_partitions", "metadata"),
    "offsets": ("offset_commit", "offset_delete", "offset_fetch", "txn_offset_commit"),
    "topics": (
        *("create_partitions", "create_topics", "delete_records", "delete_topics"),
        *("describe_producers", "fetch", "list_offsets", "offset_for_leader_epoch", "produce"),
    ),
    "transactions": (
        *("add_offsets_to_txn", "add_partitions_to_txn", "describe_transactions", "end_txn"),
        *("init_producer_id", "list_transactions", "write_txn_markers"),
    ),
}
"""The modules of this package, each with its guards by the name of their API's module."""

_MODULES = {api: module for module, apis in GUARDS.items() for api in apis}


def guard(api_key: int, request: Any, context: RequestContext) -> Any:
    """An API's guarded response, or an object that gives it later; KafkaError without a guard."""
    name = MODULES.get(api_key) or OWN_MODULES[api_key]
    handle = route(api_key, context.api_version).handle
    if name in FOR_EVERYBODY:
        return handle(request, context)
    if name not in _MODULES:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "nobody may use this API")
    authorizer = context.broker.authorizer
    assert authorizer is not None
    api = APIS.get(api_key) or OWN_APIS[api_key]
    guards = import_module(f"kwire.handlers.guards.{_MODULES[name]}")
    rights = Authorization(authorizer, api.name, handle, context)
    return at_once_or_later(getattr(guards, name)(request, rights))
