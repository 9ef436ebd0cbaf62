"""The audit log: which operations the authorizer allowed or denied. Its logger is
``kwire.authorizer``.

Rules:

- A denial is logged at INFO, a permission at DEBUG, as Kafka's ``kafka.authorizer.logger`` does. A
  resource that a response merely leaves out, because the client may not see it, is not logged.
- The text of a line is Kafka's. Names in it come from clients, who could forge lines with them. So
  long names are shortened, and characters that can't be printed are escaped.
- The number of lines is limited, for one client and for all (``kwire.security.audit_limits``).
- Where a single request of Produce is served, no lines are written. While permissions are wanted
  (DEBUG), each request is served as objects: ``follow_level`` tells so.
- For logs in JSON, a line has the fields ``principal``, ``host``, ``operation``, ``resource_type``,
  ``resource_name``, ``request`` and ``is_allowed``.
"""

import logging

from kwire.metadata.acls import AclOperation, ResourceType
from kwire.security.audit_limits import shown
from kwire.security.authorizer import Authorizer, Client, Rule

log = logging.getLogger("kwire.authorizer")

_KINDS = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}


def note_answer(
    authorizer: Authorizer,
    client: Client,
    api: str,
    question: tuple[int, int, str],
    rule: Rule,
    count: int = 1,
) -> None:
    """Log one answer of the authorizer.

    ``question`` is (operation, resource type, resource name). ``count`` says how many elements of
    the request needed this answer.
    """
    level = logging.DEBUG if rule.is_allowed else logging.INFO
    if not log.isEnabledFor(level):
        return
    principal = shown(str(client.principal))
    limits = authorizer.permissions if rule.is_allowed else authorizer.denials
    if not limits.has_line(principal, client.peer_host):
        return
    operation, resource_type, name = question
    fields = {
        "principal": principal,
        "host": client.peer_host,
        "operation": AclOperation(operation).name,
        "resource_type": _KINDS[ResourceType(resource_type)],
        "resource_name": shown(name),
        "request": api,
        "is_allowed": rule.is_allowed,
    }
    log.log(
        level,
        "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for "
        "request = %s with resourceRefCount = %d based on rule %s",
        fields["principal"],
        "Allowed" if rule.is_allowed else "Denied",
        fields["operation"],
        fields["host"],
        fields["resource_type"],
        fields["resource_name"],
        api,
        count,
        shown(rule.reason),
        extra={"fields": fields},
    )


def follow_level(authorizer: Authorizer) -> None:
    """Note whether the log records permissions, and log how many lines were left out so far.

    The broker calls this when it starts, and every second.
    """
    authorizer.notes_allowed = log.isEnabledFor(logging.DEBUG)
    authorizer.denials.log_left_out()
    authorizer.permissions.log_left_out()
