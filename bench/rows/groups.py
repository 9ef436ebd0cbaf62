"""Rows of groups: how long members wait.

The client's own encoding and decoding between its requests doesn't count.
"""

import time

from bench.load import ask, connected, decoded, frame_of, timed
from bench.rows.common import TIME_LIMIT_S, Row, Running
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUPS = 500
"""Ten per partition of the offsets topic, so that the cost of its first record weighs little."""
JOIN_VERSION, SYNC_VERSION = 3, 2


def join_to_sync_us(running: Running) -> float:
    """Median time of a single member from JoinGroup to its assignment."""
    bootstrap = running.broker.bootstrap
    ask(bootstrap, FindCoordinatorRequest(coordinator_keys=["bench"]), 4)
    time_limit = time.monotonic() + TIME_LIMIT_S
    times: list[float] = []
    with connected(bootstrap) as connection:
        while len(times) < GROUPS:
            assert time.monotonic() < time_limit, "the coordinator does not answer"
            join = JoinGroupRequest(
                group_id=f"bench-{time.monotonic_ns()}",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
            )
            join_s, answer = timed(connection, frame_of(join, JOIN_VERSION))
            joined = decoded(answer, join, JOIN_VERSION)
            if joined.error_code:
                continue
            assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"x")
            sync = SyncGroupRequest(
                group_id=join.group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=[assignment],
            )
            sync_s, answer = timed(connection, frame_of(sync, SYNC_VERSION))
            assert decoded(answer, sync, SYNC_VERSION).error_code == 0
            times.append(join_s + sync_s)
    return sorted(times)[len(times) // 2] * 1e6


GROUP_ROWS: list[Row] = [
    Row("JoinGroup to SyncGroup done", "µs", False, join_to_sync_us),
]
