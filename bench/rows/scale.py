"""Rows of many groups, members and offsets, on a separate broker that is started for them."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.brokers import MeasuredBroker
from bench.load import ask, frame_of
from bench.rows.common import (
    PRODUCE_VERSION,
    Row,
    Running,
    create_topic,
    measured,
    next_offset,
    produce_request,
)
from bench.rows.members import GROUP_MEMBERS, Members
from bench.usage import resident_mb
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

LOAD = "many groups"
OFFSETS, OFFSET_GROUPS = 100_000, 1_000
PARTITIONS = OFFSETS // OFFSET_GROUPS
GROUPS = 1_000
COMMIT_VERSION, FETCH_VERSION = 8, 8
TIME_LIMIT_S = 60


def _patiently(bootstrap: str, request: OffsetCommitRequest) -> None:
    """Commit offsets, retrying until the coordinator is ready."""
    time_limit = time.monotonic() + TIME_LIMIT_S
    while True:
        answer = ask(bootstrap, request, COMMIT_VERSION)
        codes = {p.error_code for topic in answer.topics for p in topic.partitions}
        if codes == {0}:
            return
        if time.monotonic() > time_limit:
            raise RuntimeError(f"OffsetCommit: errors {codes}")


def _commit_all(bootstrap: str) -> None:
    """Commit a hundred offsets for each of a thousand groups without members."""
    for number in range(OFFSET_GROUPS):
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=number, committed_metadata=""
            )
            for index in range(PARTITIONS)
        ]
        topics = [OffsetCommitRequestTopic(name="many", partitions=partitions)]
        _patiently(bootstrap, OffsetCommitRequest(group_id=f"offsets-{number}", topics=topics))


def _loaded_s(bootstrap: str) -> float:
    """Seconds until the coordinator returns one offset for every group."""
    started = time.perf_counter()
    topics = [OffsetFetchRequestTopics(name="many", partition_indexes=[0])]
    wanted = [
        OffsetFetchRequestGroup(group_id=f"offsets-{number}", topics=topics)
        for number in range(OFFSET_GROUPS)
    ]
    found = 0
    while time.perf_counter() - started < TIME_LIMIT_S:
        answer = ask(bootstrap, OffsetFetchRequest(groups=wanted), FETCH_VERSION)
        found = sum(
            not group.error_code and group.topics[0].partitions[0].committed_offset >= 0
            for group in answer.groups
        )
        if found == OFFSET_GROUPS:
            return time.perf_counter() - started
    raise RuntimeError(f"{found} of {OFFSET_GROUPS} groups have their offsets")


def _measure_offsets(broker: MeasuredBroker) -> dict[str, float]:
    bootstrap = broker.bootstrap
    topic = CreatableTopic(name="many", num_partitions=PARTITIONS, replication_factor=1)
    ask(bootstrap, CreateTopicsRequest(topics=[topic]), 5)
    ask(bootstrap, FindCoordinatorRequest(coordinator_keys=["offsets-0"]), 4)
    before = resident_mb(broker.pid)
    _commit_all(bootstrap)
    taken_mb = resident_mb(broker.pid) - before
    broker.stop()
    broker.start()
    return {"offset": taken_mb * 1e6 / OFFSETS, "load": _loaded_s(broker.bootstrap)}


def _measure_members(broker: MeasuredBroker, running: Running) -> dict[str, float]:
    bootstrap = broker.bootstrap
    topic = create_topic(bootstrap, "probe")
    request = produce_request(topic, 1, 100)
    next_offset(bootstrap, request)
    before = resident_mb(broker.pid)
    members = Members(bootstrap)
    for number in range(GROUPS):
        members.add_group(f"members-{number}")
    taken_mb = resident_mb(broker.pid) - before
    probe = Running(broker, running.make, running.generator, max(running.seconds, 6.0))
    frame = frame_of(request, PRODUCE_VERSION)
    measured(probe, "warm-up", frame, 1, 1)
    quiet = measured(probe, "quiet", frame, 1, 1).load.p99_us
    with members:
        busy = measured(probe, "busy", frame, 1, 1).load.p99_us
    members.close()
    return {"member": taken_mb * 1000 / (GROUPS * GROUP_MEMBERS), "quiet": quiet, "busy": busy}


def _measured(running: Running) -> dict[str, float]:
    """All numbers, measured once a round."""
    with tempfile.TemporaryDirectory(prefix="bench-scale-") as directory:
        broker = running.make(Path(directory))
        broker.start()
        try:
            return _measure_offsets(broker) | _measure_members(broker, running)
        finally:
            broker.stop()


def _number(name: str) -> Callable[[Running], float]:
    def read(running: Running) -> float:
        if f"scale {name}" not in running.times:
            for key, value in _measured(running).items():
                running.times[f"scale {key}"] = [value]
        return running.times[f"scale {name}"][0]

    return read


SCALE_ROWS: list[Row] = [
    Row("memory per committed offset", "B", False, _number("offset"), LOAD),
    Row("100,000 offsets, from start to loaded", "s", False, _number("load"), LOAD),
    Row("memory per group member", "KB", False, _number("member"), LOAD),
    Row("produce p99 before 10,000 members heartbeat", "µs", False, _number("quiet"), LOAD),
    Row("produce p99 while 10,000 members heartbeat", "µs", False, _number("busy"), LOAD),
]
