"""``kwire groups``: list, describe with lag, reset offsets, delete, explain rebalances.

Only kwire serves the requests of ``explain``. Another broker closes the connection. Of a share
group, each broker is asked why records of the partitions that it leads were delivered again.
"""

import argparse
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kwire.cli import group_reset
from kwire.cli.options import add_cluster_options, add_json

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.groups import GroupView
    from kwire.protocol.messages.explain_group import ExplainGroupResponse


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    groups = commands.add_parser("groups")
    actions = groups.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser(
        "list",
        help="list groups with their members and their lag",
        description="Lists groups. The lag is how many records are left in the partitions that "
        "have a committed offset or a member; of a share group, those that are not done.",
    )
    describe = actions.add_parser(
        "describe",
        help="show the state, the members, the offsets and the lag of groups",
        description="Shows the state of groups, and for each partition the committed offset, the "
        "end, the lag (how many records are left: all of them, until an offset is committed) and "
        "the member that has it. Of a share group it shows what kwire share describe shows; of a "
        "streams group also who has which tasks.",
    )
    describe.add_argument("groups", metavar="GROUP", nargs="+")
    describe.add_argument("--members", action="store_true", help="one line for each member")
    delete = actions.add_parser("delete", help="delete groups with their offsets")
    delete.add_argument("groups", metavar="GROUP", nargs="+")
    explain = actions.add_parser(
        "explain",
        help="explain why a group has rebalanced (kwire only)",
        description="Prints which members joined, left or sent no heartbeat in time, and which "
        "rebalances followed. Of a share group also why records were delivered again or "
        "archived: a lock that ended, a release, a member that is gone, another leader. Of a "
        "streams group also what keeps its members from working, and what to do.",
    )
    explain.add_argument("group", metavar="GROUP", help="the id of the group")
    for action, run in (
        (listing, run_list),
        (describe, run_describe),
        (delete, run_delete),
        (explain, run_explain),
    ):
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)
    group_reset.add_parsers(actions)


def run_list(options: argparse.Namespace) -> int:
    """List groups; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show

    async def work(cluster: "Cluster") -> int:
        from kwire.cli.group_views import listed_groups

        rows = await listed_groups(cluster)
        columns = ("group", "state", "type", "protocol", "members", "lag")
        show(rows, columns, as_json=options.json, nothing="no groups yet")
        return 0

    return run_on_cluster(options, work)


def run_describe(options: argparse.Namespace) -> int:
    """Describe groups; returns the exit code."""
    from kwire.cli.session import run_on_cluster

    async def work(cluster: "Cluster") -> int:
        from kwire.cli.group_views import show_groups
        from kwire.client.groups import describe_group

        groups = []
        for name in options.groups:
            group = await describe_group(cluster, name)
            groups.append(await _described(cluster, group))
        show_groups(options, groups, _show_partitions)
        return 0

    return run_on_cluster(options, work)


async def _described(cluster: "Cluster", group: "GroupView") -> dict[str, Any]:
    """Everything about a group, ready for JSON."""
    if group.type == "share":
        from kwire.cli.share_views import described_share_group

        return await described_share_group(cluster, group)
    from kwire.cli.group_views import described
    from kwire.client.group_offsets import committed_offsets
    from kwire.client.offsets import EARLIEST, LATEST, list_offsets

    committed = await committed_offsets(cluster, group.group)
    owners = {one: member for member in group.members for one in member.partitions}
    partitions = sorted({*committed, *owners})
    ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    starts = await list_offsets(cluster, dict.fromkeys(owners.keys() - committed, EARLIEST))
    rows = []
    for one in partitions:
        end = ends[one]
        known_end = end if isinstance(end, int) else None
        offset = committed.get(one)
        read_to = starts.get(one) if offset is None else offset
        lag = None
        if isinstance(read_to, int) and known_end is not None:
            lag = max(known_end - read_to, 0)
        owner = owners.get(one)
        rows.append(
            {
                "topic": one.topic,
                "partition": one.partition,
                "committed": offset,
                "end": known_end,
                "lag": lag,
                "member": owner.member_id if owner else None,
                "client": owner.client_id if owner else None,
                "host": owner.host if owner else None,
            }
        )
    return described(group, rows)


def _show_partitions(found: dict[str, Any]) -> None:
    from kwire.cli.tables import show

    if found["type"] == "share":
        from kwire.cli.share_views import show_share_partitions

        show_share_partitions(found)
        return
    columns = ("topic", "partition", "committed", "end", "lag", "client", "host")
    show(found["partitions"], columns, as_json=False)
    if found.get("tasks"):
        print()
        show(found["tasks"], ["task", "role", "state", "client", "host", "member"], as_json=False)


def run_delete(options: argparse.Namespace) -> int:
    """Delete groups; returns the exit code."""
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.session import run_on_cluster
    from kwire.client.groups import delete_groups

    async def work(cluster: "Cluster") -> int:
        outcomes = Outcomes(options)
        for name, error in (await delete_groups(cluster, options.groups)).items():
            if error is None:
                outcomes.done(name, f"deleted {name}")
            else:
                outcomes.failed(name, error)
        return outcomes.finish()

    return run_on_cluster(options, work)


def run_explain(options: argparse.Namespace) -> int:
    """Explain a group; returns the exit code."""
    from kwire.cli.session import CommandError, run_on_cluster
    from kwire.client.cluster import check
    from kwire.client.errors import AnswerTimeout, ConnectionLost
    from kwire.client.share_groups import explain_share_group
    from kwire.errors import ErrorCode
    from kwire.protocol.messages.explain_group import ExplainGroupRequest, ExplainGroupResponse

    async def work(cluster: "Cluster") -> int:
        try:
            found = await cluster.ask_coordinator(
                options.group,
                ExplainGroupRequest(group_id=options.group),
                ExplainGroupResponse,
                lambda answer: [answer.error_code],
                version=0,
            )
        except AnswerTimeout:
            raise
        except ConnectionLost as error:
            raise CommandError(f"{error}: is it a kwire broker?") from error
        if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise CommandError(f"the broker knows no group {options.group}")
        check(found.error_code, f"group {options.group}")
        events = [(event.at_ms, event.text) for event in found.events]
        if found.group_type in ("share", ""):  # one that is gone has no type
            for told in await explain_share_group(cluster, options.group, max_ranges=0):
                events += [(event.at_ms, event.text) for event in told.events]
        _explain(options, found, sorted(events, key=lambda event: event[0]))
        return 0

    return run_on_cluster(options, work)


def _explain(
    options: argparse.Namespace, found: "ExplainGroupResponse", events: list[tuple[int, str]]
) -> None:
    from kwire.cli.log_lines import one_line
    from kwire.cli.tables import show_json

    if options.json:
        state = {"state": found.group_state or None, "type": found.group_type or None}
        rows = [{"at_ms": at_ms, "text": text} for at_ms, text in events]
        show_json({"group": options.group, **state, "problems": found.problems, "events": rows})
        return
    state_text = f"{found.group_state} ({found.group_type})" if found.group_state else "gone"
    print(f"{options.group}: {state_text}")
    for problem in found.problems:
        print(f"  now: {one_line(problem)}")
    for at_ms, text in events:
        at = datetime.fromtimestamp(at_ms / 1000).astimezone()
        print(f"  {at.isoformat(sep=' ', timespec='milliseconds')}  {one_line(text)}")
    if not events:
        print("  nothing has happened since the broker started")
