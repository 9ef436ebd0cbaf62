"""Moves of replicas between the data directories of this broker (AlterReplicaLogDirs, KIP-113).

Rules:

- One task moves all replicas, a piece of each in turn. Threads copy; clients and followers of the
  partitions go on (``kwire.log.moving``).
- ``replica.alter.log.dirs.io.max.bytes.per.second`` bounds all moves together.
- A request for another directory gives up the move before. One for the directory where the replica
  is ends it.
- Moves that an earlier process didn't finish begin anew when their partition is here.

Source: ReplicaManager.alterReplicaLogDirs, ReplicaAlterLogDirsManager of Kafka.
"""

import logging
from pathlib import Path
from typing import Protocol

import trio

from kwire.broker.hosted_partitions import Hosted
from kwire.budget.threads import Threads
from kwire.clock import Clock
from kwire.errors import ErrorCode, KafkaError
from kwire.log.checkpoints import TopicPartition
from kwire.log.data_directory import DataDirectory
from kwire.log.manager import LogManager
from kwire.log.moving import LAST_BYTES, PIECE_BYTES, Move, begin
from kwire.metadata.image import ConfigResourceType, MetadataImage

log = logging.getLogger(__name__)

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
CONTROLLERS_TOPIC = "__cluster_metadata"
PAUSE_S = 0.05
"""How long the task rests when no move could go on, as while logs are cut."""


class MovingBroker(Protocol):
    """A broker that moves its replicas."""

    node_id: int
    image: MetadataImage
    log_manager: LogManager
    threads: Threads
    clock: Clock
    background: trio.Nursery

    def replica(self, topic: str, index: int) -> Hosted | None:
        """A replica of this broker."""

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether a replica of this broker can't be served."""

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks of all replicas."""


class ReplicaMoves:
    """The moves of one broker; its task begins with the first of them."""

    def __init__(self, broker: MovingBroker) -> None:
        self._broker = broker
        self._moves: dict[TopicPartition, Move] = {}
        self._all: list[Move] = []
        self._asking = trio.Lock()
        self._changed = trio.Event()
        self._free_s = 0.0
        broker.background.start_soon(self.run)

    def all(self) -> list[Move]:
        """The moves that are under way."""
        return [move for move in self._moves.values() if not move.is_over]

    async def ask(self, key: TopicPartition, path: str) -> None:
        """Have a replica be moved to a directory, or made there if it isn't here yet.

        Raises KafkaError: INVALID_TOPIC_EXCEPTION, LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR,
        UNKNOWN_TOPIC_OR_PARTITION, and REPLICA_NOT_AVAILABLE for a replica that isn't here yet.
        """
        if key[0] == CONTROLLERS_TOPIC:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        async with self._asking:
            await self._ask(key, self._directory(path))

    def _directory(self, path: str) -> DataDirectory:
        for data in self._broker.log_manager.data_directories:
            if str(data.path) == path:
                data.health.check()
                return data
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs")

    async def _ask(self, key: TopicPartition, target: DataDirectory) -> None:
        broker, manager = self._broker, self._broker.log_manager
        if broker.is_offline(*key):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{key[0]}-{key[1]} is offline")
        move = self._moves.get(key)
        if move is not None and move.target is not target:
            move.is_dropped = True
            del self._moves[key]
        replica = broker.replica(*key)
        if replica is None:
            if broker.image.partition(*key) is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            manager.preferred[key] = target.path
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{key[0]}-{key[1]} isn't here")
        manager.preferred.pop(key, None)
        if key in self._moves or replica.log.health is target.health:
            return
        if manager.failures:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "a data directory is offline")
        made = await broker.threads.logs.run(
            begin, manager, replica.log, target, broker.clock.now_ms()
        )
        self._moves[key] = made
        self._all.append(made)
        self._changed.set()

    async def resume(self) -> None:
        """Begin the unfinished moves of an earlier process whose partitions are here by now."""
        for data in self._broker.log_manager.data_directories:
            for key, path in list(data.unfinished.items()):
                if self._broker.replica(*key) is not None:
                    del data.unfinished[key]
                    await self._resume(key, path)

    async def _resume(self, key: TopicPartition, path: Path) -> None:
        try:
            await self.ask(key, str(path.parent))
        except KafkaError as error:
            log.warning("%s stays an unfinished move: %s", path, error)

    async def run(self) -> None:
        """Carry out the moves, for ever."""
        while True:
            if not self._all:
                await self._changed.wait()
            self._changed = trio.Event()
            progress = [await self._go_on(move) for move in list(self._all)]
            if not any(progress):
                await trio.sleep(PAUSE_S)

    async def _go_on(self, move: Move) -> bool:
        """Take a move one step further; whether it could go on."""
        try:
            if not move.is_over:
                return await self._step(move)
        except (KafkaError, OSError) as error:
            log.error("cannot move %s to %s: %s", move.current.name, move.target.path, error)
        await self._give_up(move)
        return True

    async def _step(self, move: Move) -> bool:
        rate = self._rate()
        if move.is_waiting or not rate:
            return False
        broker, run = self._broker, self._broker.threads.housekeeping.run
        now_ms, steady_ms = broker.clock.now_ms(), broker.clock.steady_ms()
        piece = move.next_piece(int(min(PIECE_BYTES, rate)))
        if move.is_stale:
            await run(move.restart, now_ms, steady_ms)
            return True
        if piece is not None:
            await self._wait(piece.size_bytes / rate)
            await run(move.copy, piece, now_ms)
            piece = move.next_piece(LAST_BYTES)
        if move.is_stale or (piece is not None and piece.size_bytes >= min(LAST_BYTES, rate)):
            return True
        await run(move.prepare, steady_ms, broker.high_watermarks())
        if move.finish(broker.clock.now_ms(), broker.clock.steady_ms()):
            log.info("%s was moved to %s", move.current.name, move.target.path)
            self._forget(move)
            await run(move.clean_up)
        return True

    def _rate(self) -> float:
        """How many bytes may be copied in a second; 0 stops all moves."""
        image, kind = self._broker.image, ConfigResourceType.BROKER
        configs = {**image.config(kind, ""), **image.config(kind, str(self._broker.node_id))}
        return float(configs.get(RATE, "inf"))

    async def _wait(self, seconds: float) -> None:
        """Wait until what was copied before has taken its time; the next piece takes this long."""
        now_s = trio.current_time()
        wait_s, self._free_s = self._free_s - now_s, max(self._free_s, now_s) + seconds
        if wait_s > 0:
            await trio.sleep(wait_s)

    async def _give_up(self, move: Move) -> None:
        """Forget a move, and remove what it has copied."""
        self._forget(move)
        try:
            await self._broker.threads.housekeeping.run(move.drop)
        except OSError as error:
            log.warning("cannot remove %s: %s", move.future.directory, error)

    def _forget(self, move: Move) -> None:
        self._all.remove(move)
        if self._moves.get(move.key) is move:
            del self._moves[move.key]
