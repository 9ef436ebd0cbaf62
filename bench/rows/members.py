"""Many members of classic groups on raw connections, to measure their memory and heartbeats.

Member ``i`` of every group is on connection ``i``. Creating a group therefore takes only a request
or two on each connection, and all members stay while the connections are open.
"""

import socket
import threading
import time
from typing import Any

from bench.load import ask, connected, frame_of, read_response
from kwire.protocol.codec import encode
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.protocol.types import Request

GROUP_MEMBERS = 10
HEARTBEAT_INTERVAL_S = 3.0
SESSION_TIMEOUT_MS = 1_800_000
JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION = 3, 2, 3
DESCRIBE_VERSION, FIND_VERSION = 4, 4
SLICE_S = 0.01
TIMEOUT_S = 30
SUBSCRIPTION = b"\0\0" + encode(ConsumerProtocolSubscription(topics=["probe"], user_data=b""), 0)


class Members:
    """Groups of ten members each; a thread sends their heartbeats inside a ``with`` block."""

    def __init__(self, bootstrap: str) -> None:
        # Kafka creates the offsets topic when a client asks for a coordinator.
        ask(bootstrap, FindCoordinatorRequest(coordinator_keys=["members"]), FIND_VERSION)
        self._sockets = [connected(bootstrap) for _ in range(GROUP_MEMBERS)]
        self._heartbeats: list[list[bytes]] = [[] for _ in self._sockets]
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.sent = self.answered = self.refused = 0

    def __enter__(self) -> "Members":
        """Start to send heartbeats."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()
        if self.refused or self.answered != self.sent:
            raise RuntimeError(
                f"{self.answered} of {self.sent} heartbeats answered, {self.refused} refused"
            )

    def close(self) -> None:
        """Close every connection."""
        for connection in self._sockets:
            connection.close()

    def add_group(self, group_id: str) -> None:
        """Let ten members join a group, and wait until the group is stable."""
        first = self._ask(0, self._join(group_id, ""), JOIN_VERSION)
        self._sync(0, group_id, first)
        others = self._join(group_id, "")
        for connection in self._sockets[1:]:
            connection.sendall(frame_of(others, JOIN_VERSION))
        self._wait_until_known(group_id)
        again = self._join(group_id, first.member_id)
        self._sockets[0].sendall(frame_of(again, JOIN_VERSION))
        joined = [read_response(c, others, JOIN_VERSION) for c in self._sockets]
        leader = next(i for i, answer in enumerate(joined) if answer.leader == answer.member_id)
        members = [answer.member_id for answer in joined]
        self._sync(leader, group_id, joined[leader], members)
        for index, answer in enumerate(joined):
            if index != leader:
                self._sync(index, group_id, answer)
            beat = HeartbeatRequest(
                group_id=group_id,
                generation_id=answer.generation_id,
                member_id=answer.member_id,
            )
            self._heartbeats[index].append(frame_of(beat, HEARTBEAT_VERSION))

    def _wait_until_known(self, group_id: str) -> None:
        """Wait until all members but the first have joined; the rebalance waits for the first."""
        describe = DescribeGroupsRequest(groups=[group_id])
        time_limit = time.monotonic() + TIMEOUT_S
        while time.monotonic() < time_limit:
            [group] = self._ask(0, describe, DESCRIBE_VERSION).groups
            if len(group.members) == GROUP_MEMBERS:
                return
        raise RuntimeError(f"{len(group.members)} members have joined")

    def _join(self, group_id: str, member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=group_id,
            member_id=member_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )

    def _sync(
        self, index: int, group_id: str, joined: Any, members: list[str] | None = None
    ) -> None:
        assignment = b"\0" * 40
        sync = SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id in members or [joined.member_id]
            ],
        )
        answer = self._ask(index, sync, SYNC_VERSION)
        if answer.error_code:
            raise RuntimeError(f"SyncGroup: error {answer.error_code}")

    def _ask(self, index: int, request: Request, version: int) -> Any:
        time_limit = time.monotonic() + TIMEOUT_S
        while True:
            self._sockets[index].sendall(frame_of(request, version))
            answer = read_response(self._sockets[index], request, version)
            code = getattr(answer, "error_code", 0)
            if code not in (14, 15, 16) or time.monotonic() > time_limit:
                return answer

    def _beat(self) -> None:
        """Send every heartbeat once in three seconds, at even intervals, and count refusals."""
        buffers = [bytearray() for _ in self._sockets]
        count = len(self._heartbeats[0])
        for connection in self._sockets:
            connection.setblocking(False)
        started, done = time.monotonic(), 0
        while not self._stop.wait(SLICE_S):
            due = int((time.monotonic() - started) / HEARTBEAT_INTERVAL_S * count)
            for index, connection in enumerate(self._sockets):
                frames = [self._heartbeats[index][n % count] for n in range(done, due)]
                if frames:
                    connection.sendall(b"".join(frames))
                self.sent += len(frames)
                self._receive(connection, buffers[index])
            done = due
        time_limit = time.monotonic() + TIMEOUT_S
        while self.answered < self.sent and time.monotonic() < time_limit:
            for connection, buffer in zip(self._sockets, buffers, strict=True):
                self._receive(connection, buffer)
        for connection in self._sockets:
            connection.settimeout(TIMEOUT_S)

    def _receive(self, connection: socket.socket, buffer: bytearray) -> None:
        """Receive responses; the last field of each is its error code."""
        try:
            buffer += connection.recv(1 << 20)
        except BlockingIOError:
            return
        position = 0
        while len(buffer) >= position + 4:
            end = position + 4 + int.from_bytes(buffer[position : position + 4])
            if end > len(buffer):
                break
            self.answered += 1
            self.refused += buffer[end - 2 : end] != b"\0\0"
            position = end
        del buffer[:position]
