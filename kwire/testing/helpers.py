"""Helpers that most tests need: create a topic with records, read records, wait for a group.

Rules:

- The helpers ask the broker over its port, so they work with a broker in a thread as with one in a
  process. ``records`` reads the files of the log.
- ``wait_for_…`` blocks the calling thread. In a coroutine use the twin that ends in ``_async``,
  because the client under test runs in the same event loop.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias
from zlib import crc32

from kwire.config.internal_topics import OFFSETS_TOPIC
from kwire.errors import ErrorCode, KafkaError
from kwire.log import open_partition
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.protocol.messages.explain_share_group import (
    ExplainShareGroupRequest,
    ExplainShareGroupResponse,
)
from kwire.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kwire.record.records import BatchBuilder
from kwire.testing.asking import Asker, NoAnswer
from kwire.testing.faults.planning import END_LOCKS, LOCKS_CLIENT_ID, Faults
from kwire.testing.real_time import real_date_ms
from kwire.testing.rebalancing import Rebalance
from kwire.testing.share_state import ShareState, find_share_state
from kwire.testing.waiting import WaitTimeout, until, wait_until

TIMEOUT_MS = 10_000
EARLIEST, LATEST = -2, -1
BATCH_RECORDS = 10_000
TOPICS_DESCRIBED = 50
BROKERS_DEFAULT = -1

Partition: TypeAlias = tuple[str, int]


class Record(NamedTuple):
    """A record of a topic. For ``topic(records=…)`` only the fields that matter have to be given.

    ``timestamp`` is in milliseconds since the epoch; None stands for now. A partition of None is
    chosen by the key.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp: int | None = None
    offset: int = -1


NewRecord: TypeAlias = Record | bytes | str | tuple[bytes | str | None, bytes | str | None] | None
"""A record to write: a value, a pair of key and value, or a Record."""


class Helpers(ABC):
    """A broker under test, at ``bootstrap``, with its data in ``data_dir``."""

    bootstrap: str
    data_dir: Path
    faults: Faults

    def __init__(self) -> None:
        self._asker = Asker()

    @abstractmethod
    def log(self) -> str:
        """The broker's log."""

    def now_ms(self) -> int:
        """The broker's date, in milliseconds since the epoch."""
        return real_date_ms()

    def unique(self, name: str) -> str:
        """A name for a topic or a group that no other test uses."""
        return f"{name}-{uuid.uuid4().hex[:10]}"

    def topic(
        self,
        name: str,
        partitions: int | None = None,
        records: Iterable[NewRecord] = (),
        configs: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic, unless it exists, and write records to it; returns its name.

        Without ``partitions`` it has as many as the broker's ``num.partitions`` says, normally 1.
        Raises KafkaError if the broker refuses one of them.
        """
        new = _records(records)
        wanted = CreatableTopic(
            name=name,
            num_partitions=BROKERS_DEFAULT if partitions is None else partitions,
            replication_factor=BROKERS_DEFAULT,
            configs=[
                CreatableTopicConfig(name=key, value=setting(value))
                for key, value in (configs or {}).items()
            ],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS)
        result = self._asker.ask(self._any_broker(), request, 7, CreateTopicsResponse).topics[0]
        if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            check(result.error_code, f"topic {name!r}: {result.error_message or ''}")
        self.produce(name, new)
        return name

    def produce(self, topic: str, records: Iterable[NewRecord]) -> None:
        """Write records: those with a key by the key's checksum, the others in turn."""
        __tracebackhide__ = True
        new = _records(records)
        if not new:
            return
        try:
            count = self._partition_counts([topic])[topic]
        except KafkaError as error:
            raise self._with_guess(topic, error) from None
        builders: dict[int, BatchBuilder] = {}
        now_ms = self.now_ms()
        for number, record in enumerate(new):
            index = record.partition
            if index is None:
                index = number % count if record.key is None else crc32(record.key) % count
            builder = builders.setdefault(index, BatchBuilder())
            timestamp = now_ms if record.timestamp is None else record.timestamp
            builder.add(timestamp, record.key, record.value, record.headers)
            if (number + 1) % BATCH_RECORDS == 0:
                self._write(topic, builders)
                builders = {}
        self._write(topic, builders)

    def _write(self, topic: str, builders: Mapping[int, BatchBuilder]) -> None:
        for address, indexes in self._by_leader((topic, index) for index in builders).items():
            data = [
                PartitionProduceData(index=index, records=bytes(builders[index].build()))
                for _, index in indexes
            ]
            request = ProduceRequest(
                acks=-1,
                timeout_ms=TIMEOUT_MS,
                topic_data=[TopicProduceData(name=topic, partition_data=data)],
            )
            response = self._asker.ask(address, request, 11, ProduceResponse)
            for partition in response.responses[0].partition_responses:
                check(partition.error_code, f"{topic}-{partition.index}: {partition.error_message}")

    def records(self, topic: str) -> list[Record]:
        """The records that a consumer with read_committed would get, by partition and offset.

        Raises KafkaError for a topic that doesn't exist, with the name that was probably meant.
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        try:
            return self._read(topic)
        except KafkaError as error:
            raise self._with_guess(topic, error) from None

    def _with_guess(self, topic: str, error: KafkaError) -> KafkaError:
        """The error; one about a missing topic says which was probably meant."""
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return error
        from kwire.cli.suggestions import did_you_mean

        guess = did_you_mean(topic, self._partition_counts(None))
        return KafkaError(error.code, f"there is no topic {topic}{guess}")

    def _read(self, topic: str) -> list[Record]:
        found = []
        for index in range(self._partition_counts([topic])[topic]):
            reader = open_partition(self._data_at_leader(topic, index) / f"{topic}-{index}")
            found += [
                Record(one.value, one.key, tuple(one.headers), index, one.timestamp, one.offset)
                for one in reader.records(isolation="read_committed")
            ]
        return found

    def wait_for_records(self, topic: str, count: int, timeout_s: float = 10.0) -> list[Record]:
        """Wait until a topic has at least ``count`` records, and return all of them."""
        __tracebackhide__ = True
        return wait_until(
            lambda: self._records_if(topic, count),
            timeout_s=timeout_s,
            what=f"{count} records in {topic!r}",
        )

    async def wait_for_records_async(
        self, topic: str, count: int, timeout_s: float = 10.0
    ) -> list[Record]:
        """Like ``wait_for_records``, in a coroutine of trio or asyncio."""
        __tracebackhide__ = True
        what = f"{count} records in {topic!r}"
        return await until(lambda: self._records_if(topic, count), timeout_s=timeout_s, what=what)

    def _records_if(self, topic: str, count: int) -> list[Record]:
        with suppress(KafkaError, FileNotFoundError):  # the topic may still have to be created
            found = self._read(topic)
            if len(found) >= count:
                return found
        return []

    def lag(self, group: str, topic: str | None = None) -> int | None:
        """How many records a group has not committed yet; None if it has committed nothing.

        This counts the topics of which the group has committed an offset, or only ``topic``, from
        its start if the group has committed no offset of it. Waits while the broker loads the
        offsets, as after a restart; raises KafkaError if the broker refuses the request.
        """

        def found() -> list[int | None]:
            try:
                return [self._lag(group, topic)]
            except KafkaError as error:
                if error.code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    raise
                return []

        what = f"the offsets of group {group!r} to be loaded"
        return wait_until(found, timeout_s=TIMEOUT_MS / 1000, what=what)[0]

    def _lag(self, group: str, topic: str | None) -> int | None:
        committed = self._committed(group)
        topics = {name for name, _ in committed} if topic is None else {topic}
        if not topics:
            return None
        counts = self._partition_counts(sorted(topics))
        partitions = [(name, index) for name in topics for index in range(counts[name])]
        ends = self._offsets(partitions, LATEST)
        starts = self._offsets([one for one in partitions if one not in committed], EARLIEST)
        return sum(ends[one] - committed.get(one, starts.get(one, 0)) for one in partitions)

    def wait_for_lag(
        self, group: str, lag: int = 0, *, topic: str | None = None, timeout_s: float = 10.0
    ) -> None:
        """Wait until a group has committed all but ``lag`` records."""
        __tracebackhide__ = True
        wait_until(
            lambda: self._lag_is(group, lag, topic),
            timeout_s=timeout_s,
            what=f"group {group!r} to have a lag of {lag}",
        )

    async def wait_for_lag_async(
        self, group: str, lag: int = 0, *, topic: str | None = None, timeout_s: float = 10.0
    ) -> None:
        """Like ``wait_for_lag``, in a coroutine of trio or asyncio."""
        __tracebackhide__ = True
        what = f"group {group!r} to have a lag of {lag}"
        await until(lambda: self._lag_is(group, lag, topic), timeout_s=timeout_s, what=what)

    def _lag_is(self, group: str, most: int, topic: str | None) -> "_Lag":
        why = partial(self._why_no_lag, group, topic)
        try:
            return _Lag(self._lag(group, topic), most, why)
        except KafkaError as error:  # perhaps the topic isn't created yet
            return _Lag(None, most, why, str(error))

    def _why_no_lag(self, group: str, topic: str | None) -> str:
        if topic is not None and not self._has(topic):
            return f"there is no topic {topic!r}"
        found = self._asker.ask(
            self._coordinator(group), ListGroupsRequest(), 4, ListGroupsResponse
        )
        if all(one.group_id != group for one in found.groups):
            return f"there is no group {group!r}"
        return f"group {group!r} has committed nothing"

    def rebalance(self, group: str, timeout_s: float = 30.0) -> None:
        """Have a group share its partitions out anew, by a member that joins it and leaves.

        Returns when the group is stable again. Raises ValueError if it has no members.
        """
        __tracebackhide__ = True
        Rebalance(self._asker, self._coordinator(group), group, timeout_s).run()

    def share_state(self, group: str) -> ShareState:
        """What is where in a share group: available, acquired by whom, acknowledged, archived.

        A group that has not read anything yet has nothing.
        """
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        response = self._asker.ask(self._any_broker(), request, 10, MetadataResponse)
        topics = {
            bytes(topic.topic_id): (topic.name or "", len(topic.partitions))
            for topic in response.topics
            if not topic.is_internal
        }
        return find_share_state(
            self._asker,
            self._all_brokers(),
            group,
            topics,
            lambda partitions: self._offsets(partitions, LATEST),
        )

    def end_share_locks(self, group: str) -> None:
        """End the locks of a share group's records at once, as if their time was up.

        What its members had acquired and not acknowledged is delivered again.
        """
        request = ExplainShareGroupRequest(group_id=group)
        with self.faults.plan(END_LOCKS):
            for address in self._all_brokers():
                self._asker.ask(address, request, 0, ExplainShareGroupResponse, LOCKS_CLIENT_ID)

    def _committed(self, group: str) -> dict[Partition, int]:
        wanted = OffsetFetchRequestGroup(group_id=group, topics=None)
        request = OffsetFetchRequest(groups=[wanted])
        address = self._coordinator(group)
        response = self._asker.ask(address, request, 8, OffsetFetchResponse).groups[0]
        if response.error_code == ErrorCode.NOT_COORDINATOR and not self._has(OFFSETS_TOPIC):
            return {}  # no group has committed anything yet
        check(response.error_code, f"group {group!r}")
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in response.topics
            for partition in topic.partitions
            if partition.committed_offset >= 0
        }

    def _offsets(self, partitions: Iterable[Partition], timestamp: int) -> dict[Partition, int]:
        offsets = {}
        for address, led in self._by_leader(partitions).items():
            request = ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                        ],
                    )
                    for topic, index in led
                ],
            )
            response = self._asker.ask(address, request, 6, ListOffsetsResponse)
            for topic in response.topics:
                for partition in topic.partitions:
                    check(partition.error_code, f"{topic.name}-{partition.partition_index}")
                    offsets[topic.name, partition.partition_index] = partition.offset
        return offsets

    def _by_leader(self, partitions: Iterable[Partition]) -> dict[str, list[Partition]]:
        """Partitions by the address of their leader."""
        found: dict[str, list[Partition]] = {}
        for partition in partitions:
            found.setdefault(self._leader(*partition), []).append(partition)
        return found

    # Where a helper asks; one broker is all of these

    def _any_broker(self) -> str:
        """The address of a broker that runs."""
        return self.bootstrap

    def _all_brokers(self) -> Iterable[str]:
        """The addresses of all brokers that run."""
        return [self.bootstrap]

    def _leader(self, topic: str, index: int) -> str:
        """The address of a partition's leader."""
        return self.bootstrap

    def _coordinator(self, group: str) -> str:
        """The address of a group's coordinator."""
        return self.bootstrap

    def _data_at_leader(self, topic: str, index: int) -> Path:
        """The data directory of a partition's leader."""
        return self.data_dir

    def _partition_counts(self, topics: Iterable[str] | None) -> dict[str, int]:
        """How many partitions topics have; KafkaError if one of them doesn't exist."""
        named = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
        response = self._asker.ask(self._any_broker(), request, 9, MetadataResponse)
        for topic in response.topics:
            check(topic.error_code, f"topic {topic.name!r}")
        return {topic.name or "": len(topic.partitions) for topic in response.topics}

    def _has(self, topic: str) -> bool:
        try:
            return bool(self._partition_counts([topic]))
        except KafkaError:
            return False

    def describe(self) -> str:
        """The topics and how many records each partition has, for reports of failing tests."""
        return "\n".join(self._described()) or "no topics"

    def report(self) -> str:
        """The topics and the log, for the report of a failing test."""
        try:
            topics = self.describe()
        except (NoAnswer, OSError, WaitTimeout) as error:
            topics = str(error)
        return f"topics of {self.bootstrap}:\n{topics}\n\nlog:\n{self.log() or '(empty)'}"

    def _described(self) -> Iterator[str]:
        counts = sorted(self._partition_counts(None).items())
        for topic, count in counts[:TOPICS_DESCRIBED]:
            shown = [(topic, index) for index in range(min(count, TOPICS_DESCRIBED))]
            starts, ends = self._offsets(shown, EARLIEST), self._offsets(shown, LATEST)
            offsets = ", ".join(f"{one[1]}: {starts[one]} to {ends[one]}" for one in shown)
            more = " …" if count > len(shown) else ""
            partitions = f"{count} partition{'s' * (count != 1)}"
            yield f"{topic} ({partitions}): {offsets}{more}"
        if len(counts) > TOPICS_DESCRIBED:
            yield f"… and {len(counts) - TOPICS_DESCRIBED} more topics"


class _Lag(NamedTuple):
    """A group's lag; true when it is small enough. A timeout shows it, or why there is none."""

    lag: int | None
    most: int
    why_none: Callable[[], str]
    error: str = ""

    def __bool__(self) -> bool:
        return self.lag is not None and self.lag <= self.most

    def __repr__(self) -> str:
        if self.lag is not None:
            return f"a lag of {self.lag}"
        try:
            return self.why_none()
        except (KafkaError, NoAnswer, OSError) as error:
            return self.error or str(error)


def setting(value: object) -> str:
    """A setting's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bytes(text: bytes | str | None) -> bytes | None:
    if not isinstance(text, str | bytes | None):
        raise TypeError(f"a key or a value is str, bytes or None, not {text!r}: use json.dumps()")
    return text.encode() if isinstance(text, str) else text


def _records(new: Iterable[NewRecord]) -> list[Record]:
    if isinstance(new, str | bytes):
        raise TypeError(f"records is a list of records, not one of them: [{new!r}]")
    return [_as_record(one) for one in new]


def _as_record(new: NewRecord) -> Record:
    if isinstance(new, Record):
        return new
    if isinstance(new, tuple):
        key, value = new
        return Record(_bytes(value), _bytes(key))
    return Record(_bytes(new))


def check(code: int, what: str) -> None:
    """Raise the KafkaError that an answer tells, if there is one."""
    if code:
        raise KafkaError(ErrorCode(code), what)
