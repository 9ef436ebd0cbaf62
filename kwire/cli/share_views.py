"""What ``kwire share`` and ``kwire groups describe`` show of a share group."""

from collections.abc import Sequence
from typing import Any

from kwire.cli.group_views import described
from kwire.cli.tables import show
from kwire.client.cluster import Cluster
from kwire.client.groups import GroupView
from kwire.client.share_groups import (
    explain_share_group,
    share_offsets,
    state_name,
    waiting_records,
)

MAX_RANGES = 10_000
"""So many ranges of records in flight are asked of each broker."""


async def described_share_group(cluster: Cluster, group: GroupView) -> dict[str, Any]:
    """Everything that Kafka's requests tell of a share group, ready for JSON."""
    offsets = await share_offsets(cluster, group.group)
    clients: dict[Any, list[str]] = {}
    for member in group.members:
        for one in member.partitions:
            clients.setdefault(one, []).append(member.client_id)
    rows = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "start": offsets[one].start_offset if one in offsets else None,
            "lag": offsets[one].lag if one in offsets else None,
            "members": sum(one in member.partitions for member in group.members),
            "clients": sorted(set(clients.get(one, ()))),
        }
        for one in sorted({*offsets, *clients})
    ]
    return described(group, rows)


async def records_in_flight(cluster: Cluster, group: GroupView) -> dict[str, Any]:
    """What kwire's brokers know besides: who has which records, ready for JSON."""
    clients = {member.member_id: member.client_id for member in group.members}
    answers = await explain_share_group(cluster, group.group, MAX_RANGES)
    partitions = [one for answer in answers for one in answer.partitions]
    partitions.sort(key=lambda one: (one.topic_name, one.partition_index))
    return {
        "in_flight": [
            {
                "topic": one.topic_name,
                "partition": one.partition_index,
                "start": one.start_offset,
                "end": one.end_offset,
                "waiting": waiting_records(one),
                "acquired": one.acquired,
                "redelivered": one.redelivered,
                "acknowledged": one.acknowledged,
                "archived": one.archived,
            }
            for one in partitions
        ],
        "records": [
            {
                "topic": one.topic_name,
                "partition": one.partition_index,
                "first": row.first_offset,
                "last": row.last_offset,
                "state": state_name(row.state),
                "deliveries": row.delivery_count,
                "member": row.member_id or None,
                "client": clients.get(row.member_id),
                "held_s": row.held_ms / 1000 if row.member_id else None,
                "lock_left_s": row.lock_left_ms / 1000 if row.member_id else None,
            }
            for one in partitions
            for row in one.ranges
        ],
        "has_more": any(answer.has_more for answer in answers),
    }


def show_share_partitions(found: dict[str, Any]) -> None:
    """Print what ``described_share_group`` found, and ``records_in_flight`` if it is there."""
    if "records" not in found:
        _show(found["partitions"], "topic partition start lag members clients")
        return
    _show(
        found["in_flight"],
        "topic partition start end waiting acquired redelivered archived",
        "no broker has records of the group in memory: "
        + ("nothing has been read yet" if found["members"] else "no member reads"),
    )
    if found["records"]:
        print()
        _show(
            found["records"],
            "topic partition first last state deliveries client member held_s lock_left_s",
        )
    if found["has_more"]:
        print(f"and more: only {MAX_RANGES} ranges of a broker are shown")


def _show(rows: Sequence[dict[str, Any]], columns: str, nothing: str = "") -> None:
    show(rows, columns.split(), as_json=False, nothing=nothing)
