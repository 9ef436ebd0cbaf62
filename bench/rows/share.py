"""Rows of share groups: records per second, delivery, records in flight, and locks that end.

Members are raw connections with one ShareFetch in flight each. Every fetch acknowledges what the
one before it brought, as a consumer does that acknowledges each record explicitly.
"""

import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from bench.load import ask, connected, decoded, frame_of, read_frame, read_response, run_load
from bench.rows.common import (
    PRODUCE_VERSION,
    TIME_LIMIT_S,
    Row,
    Running,
    create_topic,
    delete_topic,
    next_offset,
    produce_request,
)
from bench.usage import MB, cpu_seconds, resident_mb
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from kwire.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

HEARTBEAT_VERSION, FETCH_VERSION, ALTER_VERSION, FIND_VERSION = 1, 2, 1, 4
GROUP_RESOURCE = 32
ACCEPT = 1
MAX_RECORDS = 500
"""As Kafka's consumers ask: their default of max.poll.records."""
PARTITIONS = 4
RECORDS = 1_500_000
BATCH_RECORDS = 100
RECORD_BYTES = 100
WARM_UP_S = 0.5
DELIVERIES = 500
IN_FLIGHT = 100_000
LOCKS = 2000
"""Records that a partition locks at most: the default of group.share.partition.max.record.locks."""
LOCK_S = 15.0
"""The shortest lock that brokers allow by default."""

Acquired = dict[int, list[tuple[int, int]]]
"""First and last offsets of acquired records, by partition."""


class Member:
    """A member of a share group on a connection of its own, which reads one topic."""

    def __init__(self, bootstrap: str, group: str, topic: str, member_id: str) -> None:
        self._connection = connected(bootstrap)
        self._group, self._member_id, self._topic = group, member_id, topic
        self._topic_id = b""
        self._epoch = 0
        self._member_epoch = 0
        self._sent: ShareFetchRequest | None = None
        self.partitions: list[int] = []

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def fileno(self) -> int:
        """The descriptor of the connection."""
        return self._connection.fileno()

    def beat(self) -> None:
        """Send one heartbeat, and take over the assignment in its answer."""
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._member_epoch,
            subscribed_topic_names=None if self._member_epoch else [self._topic],
        )
        self._connection.sendall(frame_of(request, HEARTBEAT_VERSION))
        answer = read_response(self._connection, request, HEARTBEAT_VERSION)
        if answer.error_code:
            return
        self._member_epoch = answer.member_epoch
        if answer.assignment is not None:
            self.partitions = []
            for one in answer.assignment.topic_partitions:
                self._topic_id, self.partitions = one.topic_id, list(one.partitions)

    def ask_for_records(self, accepted: Acquired, max_wait_ms: int = 500) -> None:
        """Send a ShareFetch that accepts records; ``take_records`` reads the answer."""
        told = set(accepted) if self._epoch else {*accepted, *self.partitions}
        partitions = [
            FetchPartition(
                partition_index=index,
                acknowledgement_batches=[
                    AcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=[ACCEPT]
                    )
                    for first, last in accepted.get(index, ())
                ],
            )
            for index in sorted(told)
        ]
        topics = [FetchTopic(topic_id=self._topic_id, partitions=partitions)] if partitions else []
        self._sent = ShareFetchRequest(
            group_id=self._group,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=50 * MB,
            max_records=MAX_RECORDS,
            batch_size=MAX_RECORDS,
            topics=topics,
        )
        self._connection.sendall(frame_of(self._sent, FETCH_VERSION))

    def take_records(self) -> Acquired:
        """Read the answer to the last ShareFetch; RuntimeError for an error in it."""
        assert self._sent is not None
        answer = decoded(read_frame(self._connection), self._sent, FETCH_VERSION)
        if answer.error_code:
            raise RuntimeError(f"ShareFetch: error {answer.error_code}")
        self._epoch += 1
        acquired: Acquired = {}
        for topic in answer.responses:
            for one in topic.partitions:
                _check(one)
                if one.acquired_records:
                    acquired[one.partition_index] = [
                        (run.first_offset, run.last_offset) for run in one.acquired_records
                    ]
        return acquired


def _check(partition: Any) -> None:
    """RuntimeError if a partition refuses the fetch or its acknowledgements."""
    if partition.error_code or partition.acknowledge_error_code:
        codes = partition.error_code, partition.acknowledge_error_code
        raise RuntimeError(f"ShareFetch of partition {partition.partition_index}: errors {codes}")


def count_of(acquired: Acquired) -> int:
    """How many records were acquired."""
    return sum(last - first + 1 for runs in acquired.values() for first, last in runs)


@contextmanager
def members_of(running: Running, topic: str, count: int, **configs: str) -> Iterator[list[Member]]:
    """New members of a new group, which reads a topic from its beginning; all have partitions."""
    bootstrap = running.broker.bootstrap
    group = f"bench-{time.monotonic_ns()}"
    # Kafka creates the offsets topic when a client asks for a coordinator.
    ask(bootstrap, FindCoordinatorRequest(coordinator_keys=[group]), FIND_VERSION)
    set_configs(bootstrap, group, {"share.auto.offset.reset": "earliest", **configs})
    with ExitStack() as stack:
        members = [
            stack.enter_context(Member(bootstrap, group, topic, f"{n:022}")) for n in range(count)
        ]
        time_limit = time.monotonic() + TIME_LIMIT_S
        while not all(one.partitions for one in members):
            assert time.monotonic() < time_limit, "the share group does not assign partitions"
            for one in members:
                one.beat()
        yield members


def set_configs(bootstrap: str, group: str, configs: dict[str, str]) -> None:
    """Set configs of a group."""
    rows = [AlterableConfig(name=name, value=value) for name, value in configs.items()]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=rows)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    [answer] = ask(bootstrap, request, ALTER_VERSION).responses
    if answer.error_code:
        raise RuntimeError(f"the configs of {group} can't be set: {answer.error_message}")


def filled_topic(running: Running, partitions: int, records: int) -> str:
    """A new topic with at least this many records, in batches of a hundred."""
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}", partitions)
    for index in range(partitions):
        request = produce_request(topic, BATCH_RECORDS, RECORD_BYTES, index)
        end = next_offset(bootstrap, request)
        frame = frame_of(request, PRODUCE_VERSION)
        while end < records // partitions:
            run_load(running.generator, bootstrap, frame, 1, 10, 0.3)
            end = next_offset(bootstrap, request)
    return topic


def shared_rate(running: Running, count: int) -> float:
    """Records that members acquire and accept per second."""
    name = rate_name(count)
    if name in running.notes:
        return running.notes[name]
    topic = running.results.setdefault("share", {}).get("topic")
    if topic is None:
        topic = running.results["share"]["topic"] = filled_topic(running, PARTITIONS, RECORDS)
    with members_of(running, topic, count) as members:
        rate, cpu_s = _load(running, members)
    running.notes[f"{name}: CPU"] = cpu_s
    running.notes[name] = rate
    return rate


def _load(running: Running, members: list[Member]) -> tuple[float, float]:
    """Records per second, and the broker's processor seconds for a million of them."""
    pid = running.broker.pid
    with selectors.DefaultSelector() as selector:
        for one in members:
            selector.register(one, selectors.EVENT_READ, one)
            one.ask_for_records({})
        taken = 0
        begins = time.perf_counter() + WARM_UP_S
        ends = begins + running.seconds
        started = cpu_s = 0.0
        now = time.perf_counter()
        while now < ends:
            for key, _ in selector.select(1):
                acquired = key.data.take_records()
                if started:
                    taken += count_of(acquired)
                key.data.ask_for_records(acquired)
            now = time.perf_counter()
            if not started and now >= begins:
                started, cpu_s = now, cpu_seconds(pid)
        cpu_s = cpu_seconds(pid) - cpu_s
    if not taken:
        raise RuntimeError("no record was delivered")
    return taken / (now - started), cpu_s / taken * 1_000_000


def rate_name(count: int) -> str:
    """The name of the row for this many consumers."""
    return f"{count} share consumer{'s' * (count > 1)}, explicit acknowledgement"


def rate_rows(count: int) -> list[Row]:
    """Rows for the records per second of a number of consumers, and the processor time."""
    name = rate_name(count)

    def cpu(running: Running) -> float:
        shared_rate(running, count)
        return running.notes[f"{name}: CPU"]

    return [
        Row(name, "records/s", True, lambda running: shared_rate(running, count), name),
        Row(f"{name}: CPU per million", "s", False, cpu, name),
    ]


DELIVERY = "produce to delivery in a share group"


def delivery_row(label: str, share: float) -> Row:
    """A row with a percentile of the time from the producer to a share consumer that waits."""

    def measure(running: Running) -> float:
        if DELIVERY not in running.times:
            running.times[DELIVERY] = deliveries_us(running)
        times = running.times[DELIVERY]
        return times[int((len(times) - 1) * share)]

    return Row(f"{DELIVERY}: {label}", "µs", False, measure, DELIVERY)


def deliveries_us(running: Running) -> list[float]:
    """Times from sending a record until a waiting ShareFetch returns it, ascending."""
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}")
    request = produce_request(topic, 1, RECORD_BYTES)
    next_offset(bootstrap, request)
    produce = frame_of(request, PRODUCE_VERSION)
    times = []
    with members_of(running, topic, 1) as [member], connected(bootstrap) as writer:
        accepted: Acquired = {}
        while not accepted:
            member.ask_for_records({})
            accepted = member.take_records()
        for _ in range(DELIVERIES):
            member.ask_for_records(accepted, 5000)
            _wait_until_it_waits(member)
            started = time.perf_counter()
            writer.sendall(produce)
            accepted = member.take_records()
            times.append(time.perf_counter() - started)
            assert count_of(accepted) == 1, accepted
            read_response(writer, request, PRODUCE_VERSION)
    delete_topic(bootstrap, topic)
    return sorted(taken * 1e6 for taken in times)


def _wait_until_it_waits(member: Member) -> None:
    """Give the broker 2 ms for a ShareFetch, which has nothing to answer yet."""
    with socket.fromfd(member.fileno(), socket.AF_INET, socket.SOCK_STREAM) as own:
        timeout = own.gettimeout()
        own.settimeout(0.002)
        try:
            own.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            pass
        finally:
            own.settimeout(timeout)


def in_flight_mb(running: Running) -> float:
    """How much memory a hundred thousand acquired records take, which nobody acknowledges."""
    partitions = IN_FLIGHT // LOCKS
    topic = filled_topic(running, partitions, IN_FLIGHT + partitions * BATCH_RECORDS)
    with members_of(running, topic, 1) as [member]:
        member.ask_for_records({})
        count = count_of(member.take_records())
        before = resident_mb(running.broker.pid)
        time_limit = time.monotonic() + TIME_LIMIT_S
        while count < IN_FLIGHT:
            assert time.monotonic() < time_limit, f"{count} records are in flight"
            member.ask_for_records({})
            count += count_of(member.take_records())
        return resident_mb(running.broker.pid) - before


def redelivery_ms(running: Running) -> float:
    """After a lock's end, the time until another member has the record of one that is silent."""
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}")
    next_offset(bootstrap, produce_request(topic, 1, RECORD_BYTES))
    lock = {"share.record.lock.duration.ms": str(int(LOCK_S * 1000))}
    with members_of(running, topic, 2, **lock) as [silent, other]:
        acquired: Acquired = {}
        while not acquired:
            started = time.perf_counter()
            silent.ask_for_records({})
            acquired = silent.take_records()
        again: Acquired = {}
        time_limit = time.monotonic() + TIME_LIMIT_S
        while not again:
            assert time.monotonic() < time_limit, "the record does not come again"
            other.ask_for_records({})
            again = other.take_records()
        assert again == acquired, again
        return (time.perf_counter() - started - LOCK_S) * 1000


SHARE_ROWS: list[Row] = [
    *(row for count in (1, 4, 16) for row in rate_rows(count)),
    delivery_row("p50", 0.5),
    delivery_row("p99", 0.99),
    Row("memory of 100,000 records in flight", "MB", False, in_flight_mb),
    Row("a lock ends: until another member has the record", "ms", False, redelivery_ms),
]
