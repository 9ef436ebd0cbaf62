"""Rows of groups: how long members wait."""

import time

from bench.load import ask
from bench.rows.common import Row, Running
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


def join_to_sync_us(running: Running) -> float:
    """Median time of a lone member from JoinGroup to its assignment."""
    bootstrap = running.broker.bootstrap
    ask(bootstrap, FindCoordinatorRequest(coordinator_keys=["bench"]), 4)
    time_limit = time.monotonic() + 30
    times: list[float] = []
    while len(times) < 30:
        assert time.monotonic() < time_limit, "the coordinator does not answer"
        group = f"bench-{time.monotonic_ns()}"
        join = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        started = time.perf_counter()
        joined = ask(bootstrap, join, 3)
        if joined.error_code:
            continue
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"x")
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assignment],
        )
        assert ask(bootstrap, sync, 2).error_code == 0
        times.append(time.perf_counter() - started)
    return sorted(times)[len(times) // 2] * 1e6


GROUP_ROWS: list[Row] = [
    Row("JoinGroup to SyncGroup done", "µs", False, join_to_sync_us),
]
