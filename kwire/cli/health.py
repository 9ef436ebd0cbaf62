"""``kwire health``: whether a cluster serves all its partitions and groups.

Exit codes: 0 if everything is well, 1 if not or if no broker answers, 3 if nothing is wrong as far
as the user may see, but the user has no right to see everything.

A registered broker that is fenced is down, cut off or starting: Metadata leaves it out,
DescribeCluster (version 2, KIP-1073) names it. Whether a broker reaches the metadata is in its
answer to DescribeQuorum.
"""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kwire.cli.options import add_cluster_options, add_json, seconds
from kwire.config.internal_topics import FACTORS, OFFSETS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.protocol.messages.metadata import MetadataResponse

NOT_KNOWN = 3
"""The exit code if only rights are missing."""

_SHOWN = 5
_CHECK_GROUP = "kwire-health"
_NO_CLUSTER = "not known: no right to DESCRIBE the cluster"
_NO_GROUP = f"not known: no right to DESCRIBE the group {_CHECK_GROUP}"
_START_BROKERS = (
    "start the brokers of their replicas, which kwire topics describe TOPIC names; if all run, "
    "their logs name data directories that are offline, and partitions whose replicas are lost, "
    "and say what to do"
)
_END_CORDONS = "kwire configs unset broker ID cordoned.log.dirs ends it"
_MORE_BROKERS = "start more brokers, or lower the setting of each broker and restart it"


class Check(NamedTuple):
    """What was looked at; ``ok`` is None if the user may not know."""

    check: str
    ok: bool | None
    text: str
    details: list[str]
    remedy: str = ""
    """What to do if it isn't ok."""
    is_note: bool = False
    """Whether it only tells something, and the verdict doesn't depend on it."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    health = commands.add_parser(
        "health",
        description="Checks that every registered broker answers and reaches the metadata (in "
        "kwire's clusters: etcd), that every partition has a leader and all its replicas in sync, "
        "and that groups have a coordinator. The exit code is 1 if not, and 3 if that is not known "
        "because the user has no right to ask. While nobody has used transactions, it only notes "
        "that there are too few brokers for their internal topic. It also notes which data "
        "directories are cordoned (cordoned.log.dirs), and get no new replicas.",
    )
    health.add_argument(
        "--wait", metavar="SECONDS", type=seconds, help="try again until all is well"
    )
    add_json(health)
    add_cluster_options(health)
    health.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check the cluster; returns the exit code."""
    from kwire.cli.session import run_on_cluster

    async def work(cluster: "Cluster") -> int:
        import trio

        from kwire.client.errors import ClientError

        give_up_s = trio.current_time() + (options.wait or 0)
        backoff = cluster.backoff()
        while True:
            pause_s = backoff.next_s()
            is_last = trio.current_time() + pause_s > give_up_s
            try:
                checks = await checks_of(cluster)
            except ClientError:
                if is_last:
                    raise
            else:
                if is_last or _verdict(checks) is not False:
                    return print_checks(options, checks)
            await trio.sleep(pause_s)

    return run_on_cluster(options, work)


async def checks_of(cluster: "Cluster") -> list[Check]:
    """Look at brokers, partitions and coordinators; ClientError if no broker answers."""
    import trio

    from kwire.cli.broker_checks import fenced_brokers, look_at
    from kwire.cli.internal_topics import too_few_brokers

    started_s = trio.current_time()
    found = await cluster.metadata(None)
    nodes = sorted(broker.node_id for broker in found.brokers)
    views = await look_at(cluster, nodes)
    took_ms = (trio.current_time() - started_s) * 1000
    silent = [view.silence for view in views if view.silence]
    answering = [node for node, view in zip(nodes, views, strict=True) if not view.silence]
    fenced = await fenced_brokers(cluster)
    count = len(views) + len(fenced)
    text = f"{len(views) - len(silent)} of {count} answer ({took_ms:.0f} ms)"
    checks = [Check("brokers", not silent and not fenced, text, silent + fenced)]
    sees_all = all(view.has_right for view in views)
    if sees_all:
        answered, lost = count - len(silent) - len(fenced), [one.loss for one in views if one.loss]
        text = f"{answered - len(lost)} of {answered} brokers reach it"
        checks.append(Check("metadata", answered > 0 and not lost, text, lost))
    else:
        checks.append(Check("metadata", None, _NO_CLUSTER, []))
    checks += _partitions(found, sees_all=sees_all)
    lacking: dict[str, str] = {}
    if answering and not FACTORS.keys() <= {topic.name for topic in found.topics}:
        lacking = await too_few_brokers(cluster, answering[0], count)
    checks.append(await _coordinators(cluster, lacking.get(OFFSETS_TOPIC)))
    if cordoned := [view.cordoned for view in views if view.cordoned]:
        text = "these get no new replicas"
        checks.append(Check("cordoned", False, text, cordoned, _END_CORDONS, is_note=True))
    if TRANSACTIONS_TOPIC in lacking:
        details = [lacking[TRANSACTIONS_TOPIC]]
        text = "nobody has used them yet, and none can be served"
        checks.append(Check("transactions", False, text, details, _MORE_BROKERS, is_note=True))
    return checks


async def _coordinators(cluster: "Cluster", why_not: str | None) -> Check:
    """Whether groups have a coordinator; ``why_not`` says why their topic can't be created."""
    from kwire.errors import ErrorCode, KafkaError

    try:
        home = await cluster.coordinator(_CHECK_GROUP)
    except KafkaError as error:
        if error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return Check("coordinators", None, _NO_GROUP, [])
        remedy = _MORE_BROKERS if why_not else ""
        text = "groups can't be served"
        return Check("coordinators", False, text, [why_not or str(error)], remedy)
    return Check("coordinators", True, f"broker {home} takes groups", [])


def _partitions(found: "MetadataResponse", *, sees_all: bool) -> list[Check]:
    rows = [(topic, row) for topic in found.topics for row in topic.partitions]
    offline = [f"{t.name}-{row.partition_index}" for t, row in rows if row.leader_id < 0]
    behind = [
        f"{t.name}-{row.partition_index}"
        for t, row in rows
        if row.leader_id >= 0 and len(row.isr_nodes) < len(row.replica_nodes)
    ]
    count, internal = len(found.topics), sum(topic.is_internal for topic in found.topics)
    topics = f"{count} topic{'s' * (count != 1)}" + (f" ({internal} internal)" if internal else "")
    topics += "" if sees_all else " that this user may describe"
    have = f"{len(rows) - len(offline)} of {len(rows)} partitions of {topics} have one"
    return [
        Check("leaders", not offline, have, offline, _START_BROKERS if offline else ""),
        Check("replicas", not behind, f"{len(behind)} partitions miss some in sync", behind),
    ]


def print_checks(options: argparse.Namespace, checks: list[Check]) -> int:
    """Print what was found; returns the exit code."""
    from kwire.cli.tables import show_json

    verdict = _verdict(checks)
    if options.json:
        show_json({"healthy": verdict, "checks": [check._asdict() for check in checks]})
    else:
        marks = {True: "ok ", False: "BAD", None: "?  "}
        for check in checks:
            mark = "-  " if check.is_note else marks[check.ok]
            line = f"{mark}  {check.check:<12}  {check.text}{_shown(check.details)}"
            print(f"{line}; {check.remedy}" if check.remedy else line)
        unknown = [check.text for check in checks if check.ok is None]
        print("not healthy" if verdict is False else "; ".join(unknown) or "healthy")
    return NOT_KNOWN if verdict is None else int(not verdict)


def _verdict(checks: Iterable[Check]) -> bool | None:
    """Whether all is well; None if nothing is wrong, but not everything is known."""
    states = {check.ok for check in checks if not check.is_note}
    return False if False in states else None if None in states else True


def _shown(details: list[str]) -> str:
    more = f" and {len(details) - _SHOWN} more" if len(details) > _SHOWN else ""
    return f": {', '.join(details[:_SHOWN])}{more}" if details else ""
