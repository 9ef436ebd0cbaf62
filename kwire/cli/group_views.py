"""What commands show of groups of any type."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kwire.cli.tables import show, show_fields, show_json
from kwire.client.cluster import Cluster
from kwire.client.group_overview import overview_of_groups
from kwire.client.groups import GroupView


async def listed_groups(cluster: Cluster) -> list[dict[str, Any]]:
    """The groups of a cluster, ready for JSON."""
    return [
        {
            "group": group.listed.group_id,
            "state": group.listed.group_state or None,
            "type": group.listed.group_type or None,
            "protocol": group.listed.protocol_type or None,
            "members": group.members,
            "lag": group.lag,
        }
        for group in await overview_of_groups(cluster)
    ]


def described(group: GroupView, partitions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A group with its partitions, each with its lag, ready for JSON; a streams group has tasks."""
    tasks = [
        {
            "task": f"{task.subtopology}_{task.partition}",
            "role": task.role,
            "state": task.state,
            "member": member.member_id,
            "client": member.client_id,
            "host": member.host,
        }
        for task, member in sorted(
            ((task, member) for member in group.members for task in member.tasks),
            key=lambda row: (row[0], row[1].member_id),
        )
    ]
    return {
        "group": group.group,
        "type": group.type,
        "state": group.state,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator,
        "lag": sum(row["lag"] or 0 for row in partitions),
        "partitions": partitions,
        **({"tasks": tasks} if group.type == "streams" else {}),
        "members": [
            {
                "member": member.member_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": [str(one) for one in sorted(member.partitions)],
            }
            for member in group.members
        ],
    }


def show_groups(
    options: argparse.Namespace,
    groups: Sequence[dict[str, Any]],
    show_partitions: Callable[[dict[str, Any]], None],
) -> None:
    """Print groups: each with its members if they are asked for, otherwise its partitions."""
    if options.json:
        show_json(groups)
        return
    names = ("group", "type", "state", "assignor", "coordinator", "lag")
    for place, found in enumerate(groups):
        if place:
            print()
        show_fields({name: found[name] for name in names} | {"members": len(found["members"])})
        if options.members:
            columns = ("member", "client", "host", "partitions")
            show(found["members"], columns, as_json=False)
        else:
            show_partitions(found)
