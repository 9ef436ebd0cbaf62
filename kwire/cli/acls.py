"""``kwire acls``: who may do what; list, add, remove, and which rule decides."""

import argparse
from typing import TYPE_CHECKING, Any

from kwire.cli.acl_words import operation, operations, principal, resource
from kwire.cli.options import add_cluster_options, add_json
from kwire.cli.planning import Step, add_plan_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.client.acls import AclFilter
    from kwire.client.cluster import Cluster
    from kwire.metadata.acls import AclBinding
    from kwire.security.authorizer import Rule

_RESOURCE = "topic:NAME, group:NAME, transactional-id:NAME, token:NAME, user:NAME or cluster; a \
NAME* is a prefix, * alone is every name"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    acls = commands.add_parser("acls")
    actions = acls.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list ACLs")
    adding = actions.add_parser(
        "add",
        help="allow or deny operations on resources",
        description="Allows a principal operations on resources, or denies them. READ, WRITE, "
        "DELETE and ALTER include DESCRIBE; one denial outweighs all that allow.",
    )
    removing = actions.add_parser(
        "remove",
        help="remove ACLs",
        description="Removes the ACLs that the options name: without --resource those on all "
        "resources, and so on.",
    )
    explaining = actions.add_parser(
        "explain",
        help="say whether a principal may do something, and which rule decides",
        description="Says whether a principal may do something, and which rule decides. The "
        "brokers' super.users may do everything, whatever the rules say; no request tells who "
        "they are.",
    )
    for action in (adding, explaining):
        action.add_argument("principal", metavar="PRINCIPAL", type=principal, help="User:alice")
    adding.add_argument(
        "operations", metavar="OPERATION[,…]", type=operations, help="READ, or READ,WRITE; ALL"
    )
    adding.add_argument("resources", metavar="RESOURCE", type=resource, nargs="+", help=_RESOURCE)
    adding.add_argument("--deny", action="store_true", help="deny it")
    adding.add_argument("--host", metavar="ADDRESS", default="*", help="only from this address")
    explaining.add_argument("operation", metavar="OPERATION", type=operation, help="READ")
    explaining.add_argument("resource", metavar="RESOURCE", type=resource, help="topic:orders")
    explaining.add_argument("--host", metavar="ADDRESS", help="as seen from this address")
    for action in (listing, removing):
        action.add_argument(
            "principals", metavar="PRINCIPAL", type=principal, nargs="*", help="default: all"
        )
        action.add_argument("--resource", metavar="RESOURCE", type=resource, help=_RESOURCE)
        action.add_argument("--operation", metavar="OPERATION", type=operation, help="only this")
        action.add_argument("--host", metavar="ADDRESS", help="only those for this address")
        kind = action.add_mutually_exclusive_group()
        kind.add_argument("--allow", action="store_true", help="only those that allow")
        kind.add_argument("--deny", action="store_true", help="only those that deny")
    for action, run in (
        (listing, run_list),
        (adding, run_add),
        (removing, run_remove),
        (explaining, run_explain),
    ):
        if action in (adding, removing):
            add_plan_options(action, asks=action is removing)
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)


def _filters(options: argparse.Namespace) -> "list[AclFilter]":
    """What ``list`` and ``remove`` are about: a filter for each principal."""
    from kwire.client.acls import ANY, AclFilter
    from kwire.metadata.acls import Permission

    permission = Permission.ALLOW if options.allow else Permission.DENY if options.deny else ANY
    of, what = options.resource, options.operation
    return [
        AclFilter(
            resource_type=ANY if of is None else of.type,
            name=None if of is None else of.name,
            pattern_type=ANY if of is None else of.pattern,
            principal=one,
            host=options.host,
            operation=ANY if what is None else what,
            permission=permission,
        )
        for one in options.principals or [None]
    ]


async def _described(cluster: "Cluster", filters: "Sequence[AclFilter]") -> "list[AclBinding]":
    """The ACLs that one of the filters matches."""
    from kwire.client.acls import describe_acls
    from kwire.metadata.acls import AclBinding

    found = [acl for one in filters for acl in await describe_acls(cluster, one)]
    return [AclBinding(*acl) for acl in sorted(set(found))]


def _row(acl: "AclBinding") -> dict[str, Any]:
    from kwire.cli.acl_words import shown_resource
    from kwire.metadata.acls import AclOperation, PatternType, Permission, ResourceType

    return {
        "principal": acl.principal,
        "host": acl.host,
        "permission": Permission(acl.permission).name,
        "operation": AclOperation(acl.operation).name,
        "resource": shown_resource(acl),
        "type": ResourceType(acl.resource_type).name,
        "name": acl.name,
        "pattern": PatternType(acl.pattern_type).name,
    }


def run_list(options: argparse.Namespace) -> int:
    """List ACLs; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show

    async def work(cluster: "Cluster") -> int:
        rows = [_row(acl) for acl in await _described(cluster, _filters(options))]
        columns = ("principal", "host", "permission", "operation", "resource")
        show(rows, columns, as_json=options.json, nothing="no such ACL")
        return 0

    return run_on_cluster(options, work)


def run_add(options: argparse.Namespace) -> int:
    """Add ACLs; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.metadata.acls import AclBinding, Permission

    async def work(cluster: "Cluster") -> int:
        permission = Permission.DENY if options.deny else Permission.ALLOW
        wanted = [
            AclBinding(
                of.type, of.name, of.pattern, options.principal, options.host, one, permission
            )
            for of in options.resources
            for one in options.operations
        ]
        return await _change(cluster, options, wanted, adds=True)

    return run_on_cluster(options, work)


def run_remove(options: argparse.Namespace) -> int:
    """Remove ACLs; returns the exit code."""
    from kwire.cli.output import fail, wrong
    from kwire.cli.session import run_on_cluster

    named = (options.principals, options.resource, options.operation, options.host)
    if not (any(named) or options.allow or options.deny):
        return wrong("name what to remove: a PRINCIPAL, --resource, --operation or --host")

    async def work(cluster: "Cluster") -> int:
        found = await _described(cluster, _filters(options))
        if not found:
            return fail("no such ACL; kwire acls list shows the ACLs")
        return await _change(cluster, options, found, adds=False)

    return run_on_cluster(options, work)


async def _change(
    cluster: "Cluster", options: argparse.Namespace, acls: "Sequence[AclBinding]", *, adds: bool
) -> int:
    """Show the plan, carry it out, and say what was done; returns the exit code."""
    from kwire.cli.acl_words import shown
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.planning import begins, unchanged
    from kwire.client.acls import Acl, create_acls, delete_acls

    verb = "add" if adds else "remove"
    steps = [Step(acl.principal, f"{verb} the ACL that {shown(acl)}") for acl in acls]
    if not begins(options, steps):
        return unchanged(options, steps)
    alter = create_acls if adds else delete_acls
    errors = await alter(cluster, [Acl(*acl) for acl in acls])
    outcomes = Outcomes(options)
    done = "added" if adds else "removed"
    for acl, error in zip(acls, errors, strict=True):
        if error is None:
            outcomes.done(acl.principal, f"{done}: {shown(acl)}")
        else:
            outcomes.failed(acl.principal, error)
    return outcomes.finish()


def run_explain(options: argparse.Namespace) -> int:
    """Say which rule decides; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show_json
    from kwire.client.acls import MATCH, AclFilter

    async def work(cluster: "Cluster") -> int:
        of = options.resource
        acls = await _described(cluster, [AclFilter(of.type, of.name, MATCH)])
        rule = _rule(options, acls)
        deciding = [acl for acl in acls if _rule(options, [acl]).reason == rule.reason]
        decides = deciding[0] if deciding and acls and "Acl" in rule.reason else None
        if options.json:
            show_json(
                {
                    "principal": options.principal,
                    "operation": options.operation.name,
                    "allowed": rule.is_allowed,
                    "decides": None if decides is None else _row(decides),
                    "acls": [_row(acl) for acl in acls],
                }
            )
        else:
            _explain(options, acls, rule, decides)
        return 0

    return run_on_cluster(options, work)


def _rule(options: argparse.Namespace, acls: "Sequence[AclBinding]") -> "Rule":
    """The rule that the brokers' authorizer goes by, with these ACLs and without super users."""
    from kwire.security.authorizer import Authorizer
    from kwire.security.principal import parse_principal

    class Asked:
        principal = parse_principal(options.principal)
        peer_host = options.host or "*"

    of = options.resource
    return Authorizer((), acls).rule(Asked(), options.operation, of.type, of.name)


def _explain(
    options: argparse.Namespace,
    acls: "Sequence[AclBinding]",
    rule: "Rule",
    decides: "AclBinding | None",
) -> None:
    from kwire.cli.acl_words import shown
    from kwire.metadata.acls import EVERYBODY, WILDCARD

    may = "may" if rule.is_allowed else "may not"
    of = shown_question(options)
    print(f"{options.principal} {may} {options.operation.name} {of}")
    if decides is not None:
        print(f"  because an ACL {shown(decides)}")
    elif acls:
        print("  because no ACL allows it, and there are ACLs on this resource")
    else:
        print("  because no ACL is on this resource, and allow.everyone.if.no.acl.found isn't true")
    others = [
        acl
        for acl in acls
        if acl.principal in (options.principal, EVERYBODY) and acl is not decides
    ]
    for acl in others:
        print(f"  there is also an ACL that {shown(acl)}")
    if options.host is None and any(acl.host != WILDCARD for acl in others):
        print("  ACLs for one address count with --host ADDRESS")
    if not rule.is_allowed:
        print("  super.users of the brokers may do it nevertheless")


def shown_question(options: argparse.Namespace) -> str:
    """The resource that ``explain`` is asked about."""
    from kwire.cli.acl_words import TYPES

    of = options.resource
    [kind] = [name for name, number in TYPES.items() if number == of.type]
    return kind if kind == "cluster" else f"{kind}:{of.name}"
