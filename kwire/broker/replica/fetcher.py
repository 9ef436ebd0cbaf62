"""One task that fetches partitions from one leader, which this broker follows.

Rules:

- The task has a connection of its own, so that a fetch that waits at the leader delays nothing
  else.
- Partitions that are added join the session with the next request. If the current request still
  waits at the leader after ``GRACE_S``, the task gives it up, together with the connection and the
  session. It does so at most every ``LEAST_BETWEEN_S``.
- The task ends when it has no partitions. After an error it pauses, a little longer each time, but
  at most ``replica.fetch.backoff.ms``. A new image that concerns its partitions ends the pause.
- While the task handles an answer, a partition may get another leader or epoch. Then the task drops
  the partition's part of the answer, because the log may already have acknowledged records of the
  new leader.
- If an append has to be flushed first (``flush.messages``), it is on the disk before the next fetch
  tells a leader of it, even if that is another leader.

Source: AbstractFetcherThread, ReplicaFetcherThread, RemoteLeaderEndPoint of Kafka.
"""

import logging
import math
from collections.abc import Callable, Sequence
from functools import partial

import trio

from kwire.broker.failure_detector import SuspectedBrokers
from kwire.broker.replica.fetching import Fetching, Outcome, fetched_bytes
from kwire.broker.replica.fetching_broker import FetchingBroker
from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.broker.replica.large_appends import append_large
from kwire.broker.replica.remote_offsets import Truncations, truncations_into_range
from kwire.broker.replica.replica_fetch_connection import BYTES_PER_TURN
from kwire.broker.replica.taskless_fetching import GIVEN_UP, TasklessFetching
from kwire.broker.replica.throttles import Throttle
from kwire.client.errors import ClientError
from kwire.client.peer import OpenStream, Peer
from kwire.client.settings import ClientSettings
from kwire.errors import ErrorCode, KafkaError
from kwire.log.inline_limits import AT_ONCE_BYTES
from kwire.log.replication import Overlap
from kwire.log.truncation import Cut, truncate_logs
from kwire.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData

log = logging.getLogger(__name__)

LEAST_BETWEEN_S = 0.1
"""The shortest time between two requests that are given up because partitions were added."""

GRACE_S = 0.02
"""The time in which a leader that has news answers."""

_OF_THE_SESSION = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""Errors after which a new session is opened. A leader that has restarted knows no session."""


class Fetcher:
    """The fetches from one leader; ``address`` returns its current address, None if it has none.

    ``number`` tells the tasks apart that fetch from the same leader.
    """

    def __init__(
        self,
        broker: FetchingBroker,
        leader: int,
        address: Callable[[], tuple[str, int] | None],
        open_stream: OpenStream,
        suspects: SuspectedBrokers,
        number: int = 0,
    ) -> None:
        self.leader = leader
        self.fetching: Fetching[FollowerPartition] = Fetching()
        self._arrived: dict[FollowerPartition, None] = {}
        self._broker = broker
        self._address = address
        self._open_stream = open_stream
        self._suspects = suspects
        self._client_id = f"broker-{broker.node_id}-fetcher-{number}"
        self._peer: Peer | None = None
        self._peer_is_at: tuple[tuple[str, int], int] | None = None
        self._seen: object = None
        self._news = trio.Event()
        self._asking: trio.CancelScope | None = None
        self._given_up_s = -math.inf
        self._failures = 0
        self._taskless = TasklessFetching(
            broker, self.fetching, self._client_id, self._has_news, self._is_over
        )

    def follow(self, partition: FollowerPartition) -> None:
        """Begin to fetch a partition, or note its new leader epoch; then call ``wake``."""
        self._arrived[partition] = None

    def leave(self, partition: FollowerPartition) -> None:
        """Stop fetching a partition; then call ``wake``."""
        self._arrived.pop(partition, None)
        self.fetching.leave(partition)

    @property
    def is_idle(self) -> bool:
        """Whether this task has no partitions."""
        return not (self._arrived or self.fetching.partitions)

    def wake(self, *, is_urgent: bool) -> None:
        """Take in the changes; if ``is_urgent``, without waiting for the request in flight."""
        self._news.set()
        now_s = trio.current_time()
        asking = self._asking or self._taskless.asking
        if asking is None:
            return
        if self.is_idle:
            asking.cancel()
        elif is_urgent:
            end_s = max(now_s + GRACE_S, self._given_up_s + LEAST_BETWEEN_S)
            asking.deadline = min(asking.deadline, end_s)

    async def run(self) -> None:
        """Fetch until this task has no partitions."""
        try:
            while not self.is_idle:
                self._news = trio.Event()
                await self._take_in_partitions()
                if await self._fetch_quickly() or self._arrived:
                    continue
                request = self._request()
                if request is None:
                    await self._rest_until(self.fetching.resumes_s)
                    continue
                response = await self._send_fetch(request)
                if response is not None:
                    await self._apply_response(response)
        finally:
            self._close()

    async def _take_in_partitions(self) -> None:
        """Begin to fetch new partitions, after the truncations and the flushes that they need."""
        while self._arrived:
            arrived, self._arrived = self._arrived, {}
            cuts = [
                (one, offset, False) for one in arrived if (offset := one.first_cut) is not None
            ]
            await self._truncate_logs(cuts)
            await self._flush([one for one in arrived if one.log.flush_is_due])
            for partition in arrived:
                is_over = partition.is_deleted or partition.leader != self.leader
                if not (is_over or partition.is_offline):
                    self.fetching.follow(partition)

    def _request(self) -> FetchRequest | None:
        limits, sender = self._taskless.limits(), self._taskless.sender()
        now_s = trio.current_time()
        return self.fetching.request(sender.node_id, sender.broker_epoch, limits, now_s)

    async def _fetch_quickly(self) -> bool:
        """Fetch by a fetch connection, and do what it leaves; returns whether it fetched at all."""
        if self._peer is None:
            return False
        left = await self._taskless.run(self._peer)
        if left is None:
            return False
        if left is GIVEN_UP:
            self._close()
            self._given_up_s = trio.current_time()
        elif left.failure:
            log.info("fetching from broker %d: %s", self.leader, left.failure)
            self._suspects.connection_lost(self.leader, self._broker.image)
            self._close()
            await self._pause_after_error()
        else:
            await self._apply_outcome(Outcome() if left.outcome is None else left.outcome)
            await self._flush(left.due)
        return True

    def _has_news(self) -> bool:
        if self._broker.image is not self._seen:
            self._seen = self._broker.image
            if self._peer_is_at != self._leader_address() or self._broker.throttles is not None:
                return True
        return self._news.is_set()

    # The connection

    @property
    def _backoff_s(self) -> float:
        return self._broker.integer("replica.fetch.backoff.ms") / 1000

    async def _send_fetch(self, request: FetchRequest) -> FetchResponse | None:
        """The answer; None if there is none, after a pause unless the request was given up."""
        peer = self._connected()
        if peer is None:
            self.fetching.lost()
            await self._pause_after_error()
            return None
        timeout_ms = self._broker.integer("replica.socket.timeout.ms") + request.max_wait_ms
        with trio.CancelScope() as self._asking:
            try:
                response = await peer.ask(request, FetchResponse, timeout_s=timeout_ms / 1000)
            except ClientError as error:
                log.info("fetching from broker %d: %s", self.leader, error)
                self._suspects.connection_lost(self.leader, self._broker.image)
            else:
                if self._failures:
                    self._suspects.has_answered(self.leader)
                return response
            finally:
                scope, self._asking = self._asking, None
        self._close()
        if scope.cancelled_caught:
            self._given_up_s = trio.current_time()
        else:
            await self._pause_after_error()
        return None

    def _connected(self) -> Peer | None:
        """The connection to the leader's address in the image; None if the image has no address."""
        place = self._leader_address()
        if place is None:
            return None
        if self._peer is None or self._peer_is_at != place:
            self._close()
            settings = ClientSettings(client_id=self._client_id, backoff_s=0.0)
            broker = self._broker
            self._peer_is_at = place
            self._peer = Peer(
                *place[0], broker.background, settings, self._open_stream, broker.random
            )
        return self._peer

    def _leader_address(self) -> tuple[tuple[str, int], int] | None:
        """The address of the leader, and the epoch of its registration; None if there is none."""
        leader, address = self._broker.image.brokers.get(self.leader), self._address()
        return None if leader is None or address is None else (address, leader.epoch)

    def _close(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None
            self.fetching.lost()

    async def _pause_after_error(self) -> None:
        """Pause after an error, unless there is news."""
        self._failures += 1
        rest_s = min(0.01 * 2 ** min(self._failures, 20), self._backoff_s)
        await self._rest_until(trio.current_time() + rest_s)

    async def _rest_until(self, until_s: float) -> None:
        with trio.move_on_at(until_s):
            await self._news.wait()

    # The answer

    async def _apply_response(self, response: FetchResponse) -> None:
        now_s = trio.current_time()
        await self._apply_outcome(self.fetching.apply_response(response, now_s, self._backoff_s))

    async def _apply_outcome(self, outcome: Outcome[FollowerPartition]) -> None:
        if outcome.failure is not None:
            if outcome.failure not in _OF_THE_SESSION:
                log.warning("broker %d refuses a fetch: %s", self.leader, outcome.failure.name)
            await self._pause_after_error()
            return
        self._failures = 0
        again = await self._append(outcome.appends)
        cuts = [(partition, offset, False) for partition, offset in outcome.cuts]
        cuts += [(partition, offset, True) for partition, offset, _ in again]
        if outcome.out_of_range:
            cuts += await self._into_range(outcome.out_of_range)
        await self._truncate_logs([one for one in cuts if not self._is_over(one[0])])
        await self._append([(partition, data) for partition, _, data in again])

    def _is_over(self, partition: FollowerPartition) -> bool:
        """Whether a partition's role, leader or epoch has changed since the request."""
        is_here = self.fetching.has(partition) and partition not in self._arrived
        return partition.is_deleted or not is_here

    async def _append(
        self, appends: Sequence[tuple[FollowerPartition, PartitionData]]
    ) -> list[tuple[FollowerPartition, int, PartitionData]]:
        """Append fetched records; returns the appends whose logs must begin at another offset."""
        anew, done_bytes = [], 0
        due: list[FollowerPartition] = []
        for partition, data in appends:
            if self._is_over(partition):
                continue  # its role has changed while others were appended
            try:
                if len(fetched_bytes(data)) > AT_ONCE_BYTES:
                    await append_large(
                        partition,
                        fetched_bytes(data),
                        self._broker.clock.now_ms(),
                        partial(self._is_over, partition),
                        partial(self._append_one, partition, data),
                    )
                else:
                    self._append_one(partition, data)
            except Overlap as overlap:
                opened = partition.log
                if opened.log_end_offset > opened.log_start_offset or opened.size_bytes:
                    self._failed(partition, overlap)
                else:
                    anew.append((partition, overlap.base_offset, data))
            except KafkaError as error:
                self._failed(partition, error)
            else:
                if partition.log.flush_is_due:
                    due.append(partition)
            done_bytes += len(fetched_bytes(data))
            if done_bytes >= BYTES_PER_TURN:
                done_bytes = 0
                await trio.lowlevel.checkpoint()
        await self._flush(due)
        return anew

    async def _flush(self, due: Sequence[FollowerPartition]) -> None:
        """Wait until logs are on the disk."""
        flusher = self._broker.flusher
        for partition, flush in [(partition, flusher.demand(partition)) for partition in due]:
            try:
                await flush.wait()
            except KafkaError as error:
                self._failed(partition, error)
        if due:
            flusher.forget()

    def _append_one(self, partition: FollowerPartition, data: PartitionData) -> None:
        records = fetched_bytes(data)
        if records:
            partition.append(records, self._broker.clock.now_ms())
        partition.advance(data.high_watermark, data.log_start_offset)
        if self._broker.throttles is not None:
            is_behind = partition.log.log_end_offset < data.high_watermark
            self._slow_down(partition, len(records), self._broker.throttles.follower, is_behind)

    def _slow_down(
        self, partition: FollowerPartition, size_bytes: int, throttle: Throttle, is_behind: bool
    ) -> None:
        """Count copied bytes, and delay a throttled replica while it isn't in sync."""
        if throttle.names(partition.topic, partition.index):
            now_s = trio.current_time()
            throttle.record(size_bytes, now_s)
            pause_s = throttle.pause_s(now_s)
            if is_behind and pause_s > 0:
                self.fetching.pause(partition, now_s + pause_s)

    def _failed(self, partition: FollowerPartition, error: Exception) -> None:
        if not partition.is_deleted:
            log.warning("cannot follow %s: %s", partition.log.name, error)
        if self.fetching.has(partition):
            self.fetching.failed(partition, trio.current_time(), self._backoff_s)

    async def _into_range(self, lost: Sequence[FollowerPartition]) -> Truncations:
        """The truncations of logs that end outside of their leader's log."""
        peer = self._connected()
        if peer is None:
            return []
        cuts, failed = await truncations_into_range(peer, self.leader, self._broker.node_id, lost)
        for partition, code in failed:
            self._failed(partition, KafkaError(code))
        return cuts

    async def _truncate_logs(self, wanted: Sequence[tuple[FollowerPartition, int, bool]]) -> None:
        """Truncate logs in a thread, all with one checkpoint."""
        cuts = [one for one in wanted if not one[0].is_deleted]
        if not cuts:
            return
        before = [partition.position for partition, _, _ in cuts]
        for partition, offset, is_anew in cuts:
            end_offset = partition.log.log_end_offset
            how = "begins anew at" if is_anew else "is cut to"
            log.info("%s ends at %d and %s %d", partition.log.name, end_offset, how, offset)
            partition.begin_cut()
        try:
            errors = await self._broker.threads.logs.run(
                truncate_logs,
                self._broker.log_manager,
                [Cut(partition.log, offset, is_anew) for partition, offset, is_anew in cuts],
                self._broker.clock.now_ms(),
                self._broker.clock.steady_ms(),
            )
        finally:
            for partition, _, _ in cuts:
                partition.end_cut()
        for (partition, _, _), position, error in zip(cuts, before, errors, strict=True):
            if error is not None or partition.position == position:
                self._failed(partition, error or KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE))
