"""Moves replicas between the data directories of this broker (AlterReplicaLogDirs, KIP-113).

Rules:

- One task moves all replicas. It copies a piece of each replica in turn. Threads do the copying,
  and clients and followers keep using the partitions (``kwire.log.moving``).
- ``replica.alter.log.dirs.io.max.bytes.per.second`` limits the rate of all moves together.
- A second request for a replica replaces its move. A request for the directory where the replica
  already is cancels the move.
- A move that was unfinished when the broker stopped begins again when the broker serves the
  partition.

Source: ReplicaManager.alterReplicaLogDirs, ReplicaAlterLogDirsManager of Kafka.
"""

import logging
from pathlib import Path
from typing import Protocol

import trio

from kwire.broker.replica.partition_registry import Hosted
from kwire.budget.threads import Threads
from kwire.clock import Clock
from kwire.errors import ErrorCode, KafkaError
from kwire.log.checkpoints import TopicPartition
from kwire.log.data_directory import DataDirectory
from kwire.log.manager import LogManager
from kwire.log.moving import LAST_BYTES, PIECE_BYTES, Move, begin_move
from kwire.metadata.image import ConfigResourceType, MetadataImage

log = logging.getLogger(__name__)

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
CONTROLLERS_TOPIC = "__cluster_metadata"
PAUSE_S = 0.05
"""How long the task pauses if no move could do a step, for example while logs are truncated."""


class MovingBroker(Protocol):
    """The part of the broker that ``ReplicaMoves`` needs."""

    node_id: int
    image: MetadataImage
    log_manager: LogManager
    threads: Threads
    clock: Clock
    background: trio.Nursery

    def replica(self, topic: str, index: int) -> Hosted | None:
        """The replica of a partition on this broker."""

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether this broker has a replica of a partition but can't serve it."""

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks of all replicas."""


class ReplicaMoves:
    """The moves of one broker. The task starts with the first move."""

    def __init__(self, broker: MovingBroker) -> None:
        self._broker = broker
        self._moves: dict[TopicPartition, Move] = {}
        self._all: list[Move] = []
        self._asking = trio.Lock()
        self._changed = trio.Event()
        self._free_s = 0.0
        broker.background.start_soon(self.run)

    def all(self) -> list[Move]:
        """The unfinished moves."""
        return [move for move in self._moves.values() if not move.is_over]

    async def request_move(self, key: TopicPartition, path: str) -> None:
        """Move a replica to a directory, or create it there later if this broker doesn't have it
        yet.

        Raises KafkaError: INVALID_TOPIC_EXCEPTION, LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR,
        INVALID_REPLICA_ASSIGNMENT for a cordoned directory, UNKNOWN_TOPIC_OR_PARTITION, and
        REPLICA_NOT_AVAILABLE for a replica that isn't here yet.
        """
        if key[0] == CONTROLLERS_TOPIC:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        target = self._directory(path)
        async with self._asking:
            await self._create_move(key, target)

    def _directory(self, path: str) -> DataDirectory:
        for data in self._broker.log_manager.data_directories:
            if str(data.path) == path:
                data.health.check()
                if self._broker.log_manager.is_cordoned(data.path):
                    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{path} is cordoned")
                return data
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not in log.dirs")

    async def _create_move(self, key: TopicPartition, target: DataDirectory) -> None:
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
            begin_move, manager, replica.log, target, broker.clock.now_ms()
        )
        assert key not in self._moves, key  # ``_asking`` lets one request after the other in
        self._moves[key] = made
        self._all.append(made)
        self._changed.set()

    async def resume_moves(self) -> None:
        """Begin the moves again that an earlier process left unfinished, for partitions served by
        now.
        """
        for data in self._broker.log_manager.data_directories:
            for key, path in list(data.unfinished.items()):
                if self._broker.replica(*key) is not None:
                    del data.unfinished[key]
                    await self._resume_move(key, path)

    async def _resume_move(self, key: TopicPartition, path: Path) -> None:
        try:
            await self.request_move(key, str(path.parent))
        except KafkaError as error:
            log.warning("%s stays an unfinished move: %s", path, error)

    async def run(self) -> None:
        """Carry out the moves, forever."""
        while True:
            if not self._all:
                await self._changed.wait()
            self._changed = trio.Event()
            progress = [await self._do_next_step(move) for move in list(self._all)]
            if not any(progress):
                await trio.sleep(PAUSE_S)

    async def _do_next_step(self, move: Move) -> bool:
        """Do the next step of a move. Returns whether there was anything to do."""
        try:
            if not move.is_over:
                return await self._copy_next_piece(move)
        except (KafkaError, OSError) as error:
            log.error("cannot move %s to %s: %s", move.current.name, move.target.path, error)
        await self._give_up(move)
        return True

    async def _copy_next_piece(self, move: Move) -> bool:
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
        await run(move.prepare, steady_ms, broker.high_watermarks)
        if move.finish(broker.clock.now_ms(), broker.clock.steady_ms()):
            log.info("%s was moved to %s", move.current.name, move.target.path)
            self._forget(move)
            await run(move.clean_up)
        return True

    def _rate(self) -> float:
        """The allowed rate of all moves in bytes per second; 0 pauses them."""
        image, kind = self._broker.image, ConfigResourceType.BROKER
        configs = {**image.config(kind, ""), **image.config(kind, str(self._broker.node_id))}
        return float(configs.get(RATE, "inf"))

    async def _wait(self, seconds: float) -> None:
        """Wait until the rate allows to copy the next piece, which takes up the rate for
        ``seconds``.
        """
        now_s = trio.current_time()
        wait_s, self._free_s = self._free_s - now_s, max(self._free_s, now_s) + seconds
        if wait_s > 0:
            await trio.sleep(wait_s)

    async def _give_up(self, move: Move) -> None:
        """Cancel a move, and remove its unfinished copy."""
        self._forget(move)
        try:
            await self._broker.threads.housekeeping.run(move.drop)
        except OSError as error:
            log.warning("cannot remove %s: %s", move.future.directory, error)

    def _forget(self, move: Move) -> None:
        self._all.remove(move)
        if self._moves.get(move.key) is move:
            del self._moves[move.key]
