"""``kwire health``: whether a cluster serves all its partitions and groups.

Exit codes: 0 if everything is well, 1 if not or if no broker answers.
"""

import argparse
from typing import TYPE_CHECKING, Any

from kwire.cli.options import add_cluster_options, add_json, seconds

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.protocol.messages.metadata import MetadataResponse

_SHOWN = 5
_CHECK_GROUP = "kwire-health"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    health = commands.add_parser(
        "health",
        help="check that brokers, partitions and coordinators serve",
        description="Checks that every broker answers, that every partition has a leader and all "
        "its replicas in sync, and that groups have a coordinator. The exit code is 1 if not.",
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
                checks = await _checks(cluster)
            except ClientError:
                if is_last:
                    raise
            else:
                if is_last or all(check["ok"] for check in checks):
                    return _tell(options, checks)
            await trio.sleep(pause_s)

    return run_on_cluster(options, work)


async def _checks(cluster: "Cluster") -> list[dict[str, Any]]:
    import trio

    from kwire.client.errors import ClientError
    from kwire.errors import ErrorCode, KafkaError

    started_s = trio.current_time()
    found = await cluster.metadata(None)
    silent = []
    for broker in found.brokers:
        try:
            await (await cluster.peer(broker.node_id)).connected()
        except ClientError as error:
            silent.append(str(error))
    took_ms = (trio.current_time() - started_s) * 1000
    count = len(found.brokers)
    text = f"{count - len(silent)} of {count} answer ({took_ms:.0f} ms)"
    checks = [_check("brokers", not silent, text, silent)]
    checks += _partitions(found)
    try:
        home = await cluster.coordinator(_CHECK_GROUP)
        checks.append(_check("coordinators", True, f"broker {home} takes groups", []))
    except KafkaError as error:
        text = "groups can't be served"
        if error.code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
            text = f"not checked: that takes the right DESCRIBE on the group {_CHECK_GROUP}"
        checks.append(_check("coordinators", False, text, [str(error)]))
    return checks


def _partitions(found: "MetadataResponse") -> list[dict[str, Any]]:
    rows = [(topic, row) for topic in found.topics for row in topic.partitions]
    offline = [f"{t.name}-{row.partition_index}" for t, row in rows if row.leader_id < 0]
    behind = [
        f"{t.name}-{row.partition_index}"
        for t, row in rows
        if row.leader_id >= 0 and len(row.isr_nodes) < len(row.replica_nodes)
    ]
    topics = len(found.topics)
    return [
        _check(
            "leaders",
            not offline,
            f"{len(rows) - len(offline)} of {len(rows)} partitions of {topics} topics have one",
            offline,
        ),
        _check("replicas", not behind, f"{len(behind)} partitions miss some in sync", behind),
    ]


def _check(name: str, is_ok: bool, text: str, details: list[str]) -> dict[str, Any]:
    return {"check": name, "ok": is_ok, "text": text, "details": details}


def _tell(options: argparse.Namespace, checks: list[dict[str, Any]]) -> int:
    from kwire.cli.tables import show_json

    is_ok = all(check["ok"] for check in checks)
    if options.json:
        show_json({"healthy": is_ok, "checks": checks})
        return 0 if is_ok else 1
    for check in checks:
        details = check["details"]
        more = f" and {len(details) - _SHOWN} more" if len(details) > _SHOWN else ""
        shown = f": {', '.join(details[:_SHOWN])}{more}" if details else ""
        print(f"{'ok ' if check['ok'] else 'BAD'}  {check['check']:<12}  {check['text']}{shown}")
    print("healthy" if is_ok else "not healthy")
    return 0 if is_ok else 1
