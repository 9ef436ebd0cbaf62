"""A pipeline's requests to the cluster: topic ids, end offsets, sizes, and offset commits.

The event loop runs in a thread of its own, with connections that stay open. Calls come from any
thread and wait for the answer. Every call opens lost connections again, so a restart of a broker is
no error if the broker is back within ``RESTART_S``.
"""

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import TypeVar

import trio

from kwire.client.cluster import Cluster, check, open_cluster
from kwire.client.errors import ClientError, NotLetIn
from kwire.client.group_offsets import commit_offsets, committed_offsets
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import EARLIEST, LATEST, all_or_raise, list_offsets
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kwire.spark.checkpoint import Offsets
from kwire.spark.settings import Source
from kwire.spark.source_client import addresses_of, opener_of

T = TypeVar("T")

START_TIMEOUT_S = 30.0
RESTART_S = 60.0
"""How long a cluster may be away before a call fails; Spark's connector waits as long."""
UNREACHABLE = (ClientError, KafkaError)
"""The exceptions of a call if the cluster doesn't answer, or answers with an error."""


class BrokerView:
    """A cluster, as seen by a pipeline; use it as a context manager.

    WrongSetting for client options that don't let kwire's client in.
    """

    def __init__(self, source: Source, patience_s: float = RESTART_S) -> None:
        self._patience_s = patience_s
        self._addresses = addresses_of(source)
        self._open_stream = opener_of(source)
        self._read_committed = source.isolation_level == "read_committed"
        self._ready: Future[tuple[trio.lowlevel.TrioToken, Cluster]] = Future()
        self._end = trio.Event()
        self._thread = threading.Thread(target=self._run, name="kwire broker view", daemon=True)

    def __enter__(self) -> "BrokerView":
        self._thread.start()
        self._token, self._cluster = self._ready.result(START_TIMEOUT_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._token.run_sync_soon(self._end.set)
        self._thread.join(START_TIMEOUT_S)

    def _run(self) -> None:
        async def main() -> None:
            async with open_cluster(self._addresses, open_stream=self._open_stream) as cluster:
                self._ready.set_result((trio.lowlevel.current_trio_token(), cluster))
                await self._end.wait()

        trio.run(main)

    def _ask(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            return trio.from_thread.run(self._until_answered, work, trio_token=self._token)
        except (trio.RunFinishedError, trio.Cancelled) as error:
            raise ClientError("", "the view of the cluster is closed") from error

    async def _until_answered(self, work: Callable[[], Awaitable[T]]) -> T:
        """Ask again while no broker answers, for as long as a broker's restart takes."""
        deadline_s = trio.current_time() + self._patience_s
        backoff = self._cluster.backoff()
        while True:
            try:
                return await work()
            except NotLetIn:
                raise
            except ClientError:
                if trio.current_time() > deadline_s:
                    raise
            await trio.sleep(backoff.next_s())

    def topics_matching(self, wanted: Callable[[str], bool]) -> list[str]:
        """The names of topics, of all there are."""

        async def ask() -> list[str]:
            answer = await self._cluster.metadata(None)
            return sorted(one.name for one in answer.topics if one.name and wanted(one.name))

        return self._ask(ask)

    def topics(self, names: Iterable[str]) -> dict[str, tuple[str, int]]:
        """The id and the number of partitions of each topic that exists."""
        wanted = list(names)

        async def ask() -> dict[str, tuple[str, int]]:
            answer = await self._cluster.metadata(wanted)
            found = {}
            for topic in answer.topics:
                if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                check(topic.error_code, f"topic {topic.name}")
                found[topic.name or ""] = (topic.topic_id.hex(), len(topic.partitions))
            return found

        return self._ask(lambda: self._cluster.retrying(ask)) if wanted else {}

    def starts(self, partitions: Iterable[tuple[str, int]]) -> Offsets:
        """The log start offset of each partition."""
        return self._offsets(partitions, EARLIEST)

    def ends(self, partitions: Iterable[tuple[str, int]]) -> Offsets:
        """The end offsets for readers: the high watermark, or the last stable offset."""
        return self._offsets(partitions, LATEST)

    def _offsets(self, partitions: Iterable[tuple[str, int]], timestamp: int) -> Offsets:
        wanted = dict.fromkeys((TopicPartition(*one) for one in partitions), timestamp)

        async def ask() -> Offsets:
            found = await list_offsets(self._cluster, wanted, read_committed=self._read_committed)
            return {(one.topic, one.partition): at for one, at in all_or_raise(found).items()}

        return self._ask(ask) if wanted else {}

    def sizes(self) -> dict[tuple[str, int], int]:
        """The bytes of each partition's log, as it is on the disk of one of its brokers."""

        async def ask() -> dict[tuple[str, int], int]:
            found: dict[tuple[str, int], int] = {}
            for node in await self._cluster.nodes():
                request = DescribeLogDirsRequest(topics=None)
                answer = await self._cluster.ask(request, DescribeLogDirsResponse, node=node)
                for directory in answer.results:
                    for topic in directory.topics:
                        for row in topic.partitions:
                            key = (topic.name, row.partition_index)
                            found[key] = max(found.get(key, 0), row.partition_size)
            return found

        return self._ask(ask)

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int], note: str = "") -> None:
        """Commit offsets for a group that has no members; the first one gets the note."""
        wanted = {TopicPartition(*one): offset for one, offset in sorted(offsets.items())}
        if not wanted:
            return
        notes = {next(iter(wanted)): note}
        try:
            self._ask(lambda: commit_offsets(self._cluster, group, wanted, notes=notes))
        except KafkaError as error:
            if not note or error.code is not ErrorCode.OFFSET_METADATA_TOO_LARGE:
                raise
            self._ask(lambda: commit_offsets(self._cluster, group, wanted))

    def committed(self, group: str) -> Offsets:
        """The offsets that a group has committed."""

        async def ask() -> Offsets:
            found = await committed_offsets(self._cluster, group)
            return {(one.topic, one.partition): offset for one, offset in found.items()}

        return self._ask(ask)
