"""The audit log: who was allowed and denied what. Its logger is ``kwire.authorizer``.

Rules:

- What is denied is an INFO line, what is allowed a DEBUG line, as in Kafka's
  ``kafka.authorizer.logger``. What a response merely leaves out is no line.
- The text is Kafka's. Names come from clients: what isn't printable is escaped, and they are cut,
  so that nobody forges a line.
- A client has only so many lines in some seconds (``kwire.security.denials``).
- A line also has the fields ``principal``, ``host``, ``operation``, ``resource_type``,
  ``resource_name``, ``request`` and ``is_allowed`` for logs in JSON.
"""

import logging

from kwire.metadata.acls import AclOperation, ResourceType
from kwire.security.authorizer import Authorizer, Client, Rule

log = logging.getLogger("kwire.authorizer")

MOST_CHARACTERS = 300

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
    """Log an answer to (operation, resource type, name); ``count`` is how often it was asked."""
    level = logging.DEBUG if rule.is_allowed else logging.INFO
    if not log.isEnabledFor(level):
        return
    principal = shown(str(client.principal))
    if not (rule.is_allowed or authorizer.denials.has_line(principal, client.peer_host)):
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


def shown(text: str) -> str:
    """A text of a client in one line, and not too long."""
    cut = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
    return cut if cut.isprintable() else cut.encode("unicode_escape").decode("ascii")
