"""Reads and writes the state of share partitions, on whichever broker its coordinator is.

Rules:

- If this broker is the coordinator, there is no request: the state is asked directly, and the
  answer waits until it is replicated. Other coordinators are asked by the inter-broker client.
- While a coordinator is loaded, moves, or doesn't answer, the same is tried again, after pauses
  that grow. After ``TRIES`` the last error is raised.
- A write that is tried again may be written twice. That changes nothing, because a state counts
  with its greatest delivery count.

Source: DefaultStatePersister, PersisterStateManager of Kafka.
"""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, NamedTuple, Protocol, TypeVar

import trio

from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kwire.protocol.types import Request, Response
from kwire.share.key import SharePartitionKey
from kwire.share.state_batches import StateBatch
from kwire.share.state_coordinator import (
    UNKNOWN,
    ShareState,
    StateSummary,
    StateWrite,
    summary_of,
)

R = TypeVar("R", bound=Response)
T = TypeVar("T")

TRIES = 6
FIRST_PAUSE_S = 0.05
LAST_PAUSE_S = 1.0

_AGAIN = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.BROKER_NOT_AVAILABLE,
}
"""Errors after which another try may go well."""

_CANT_TELL = ErrorCode.COORDINATOR_NOT_AVAILABLE


class ReadState(NamedTuple):
    """The state of a share partition as its leader reads it."""

    state_epoch: int
    start_offset: int
    batches: list[StateBatch]
    delivery_complete_count: int = UNKNOWN


class Lookup(Protocol):
    """Finds the coordinators of share partitions."""

    @property
    def topic_exists(self) -> bool:
        """Whether the topic of the states exists."""

    async def ensure_topic(self) -> None:
        """Create the topic of the states if it is missing; KafkaError."""

    def leader_for(self, key: str) -> int:
        """The node id of a key's coordinator; KafkaError."""


class Here(Protocol):
    """A coordinator on this broker."""

    async def settled(self) -> None:
        """Wait until what is written now is safe; KafkaError."""


class States(Protocol):
    """The states whose coordinator is this broker."""

    @property
    def lookup(self) -> Lookup:
        """Finds the coordinators."""

    def home_of(self, key: SharePartitionKey) -> Here:
        """The coordinator of a share partition; KafkaError."""

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin a share partition anew; KafkaError."""

    def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        """A share partition's state for its leader; KafkaError."""

    def write(self, key: SharePartitionKey, wanted: StateWrite) -> None:
        """Change a share partition's state; KafkaError."""

    def delete(self, key: SharePartitionKey) -> None:
        """End a share partition's state; KafkaError."""

    def summary(self, key: SharePartitionKey) -> ShareState | None:
        """A share partition's state, None without one; KafkaError."""


class Peers(Protocol):
    """The other brokers."""

    async def ask(
        self, node_id: int, request: Request, response: type[R], *, version: int | None = None
    ) -> R:
        """A broker's answer; KafkaError."""


class PersisterBroker(Protocol):
    """A broker, for its persister."""

    node_id: int
    random: Random

    @property
    def share_states(self) -> States:
        """The states whose coordinator is this broker."""

    @property
    def peers(self) -> Peers:
        """The other brokers."""


class Persister:
    """The persistent states of all share partitions of the cluster.

    Every method raises KafkaError: the error that the coordinator answers, or the last one of the
    tries.
    """

    def __init__(self, broker: PersisterBroker) -> None:
        self._broker = broker

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin a share partition anew, at an offset; -1 leaves it to the partition's leader."""
        api = initialize_share_group_state
        wanted = api.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        topics = [api.InitializeStateData(topic_id=key.topic_id, partitions=[wanted])]
        request = api.InitializeShareGroupStateRequest(group_id=key.group_id, topics=topics)
        await self._carry_out(
            key,
            lambda states: states.initialize(key, state_epoch, start_offset),
            lambda node_id: self._ask(node_id, request, api.InitializeShareGroupStateResponse),
        )

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadState:
        """The state of a share partition, for the leader of this epoch."""
        api = read_share_group_state
        wanted = api.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        topics = [api.ReadStateData(topic_id=key.topic_id, partitions=[wanted])]
        request = api.ReadShareGroupStateRequest(group_id=key.group_id, topics=topics)

        def here(states: States) -> ReadState:
            state = states.read(key, leader_epoch)
            return ReadState(
                state.state_epoch,
                state.start_offset,
                list(state.batches),
                state.delivery_complete_count,
            )

        async def elsewhere(node_id: int) -> ReadState:
            row = await self._ask(node_id, request, api.ReadShareGroupStateResponse)
            batches = [
                StateBatch(*(getattr(one, field) for field in StateBatch._fields))
                for one in row.state_batches
            ]
            return ReadState(row.state_epoch, row.start_offset, batches)

        return await self._carry_out(key, here, elsewhere)

    async def write(self, key: SharePartitionKey, wanted: StateWrite) -> None:
        """Change the state of a share partition."""
        api = write_share_group_state
        row = api.PartitionData(
            partition=key.partition,
            state_epoch=wanted.state_epoch,
            leader_epoch=wanted.leader_epoch,
            start_offset=wanted.start_offset,
            delivery_complete_count=wanted.delivery_complete_count,
            state_batches=[api.StateBatch(**one._asdict()) for one in wanted.batches],
        )
        topics = [api.WriteStateData(topic_id=key.topic_id, partitions=[row])]
        request = api.WriteShareGroupStateRequest(group_id=key.group_id, topics=topics)
        await self._carry_out(
            key,
            lambda states: states.write(key, wanted),
            lambda node_id: self._ask(node_id, request, api.WriteShareGroupStateResponse),
        )

    async def delete(self, key: SharePartitionKey) -> None:
        """End the state of a share partition, if it has one."""
        api = delete_share_group_state
        row = api.PartitionData(partition=key.partition)
        topics = [api.DeleteStateData(topic_id=key.topic_id, partitions=[row])]
        request = api.DeleteShareGroupStateRequest(group_id=key.group_id, topics=topics)
        await self._carry_out(
            key,
            lambda states: states.delete(key),
            lambda node_id: self._ask(node_id, request, api.DeleteShareGroupStateResponse),
        )

    async def read_summary(self, key: SharePartitionKey, leader_epoch: int = -1) -> StateSummary:
        """How far a group is in a partition; ``NO_STATE`` without a state."""
        api = read_share_group_state_summary
        row = api.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        topics = [api.ReadStateSummaryData(topic_id=key.topic_id, partitions=[row])]
        request = api.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=topics)

        def here(states: States) -> StateSummary:
            return summary_of(states.summary(key))

        async def elsewhere(node_id: int) -> StateSummary:
            row = await self._ask(node_id, request, api.ReadShareGroupStateSummaryResponse)
            return StateSummary(*(getattr(row, field) for field in StateSummary._fields))

        return await self._carry_out(key, here, elsewhere)

    async def _carry_out(
        self,
        key: SharePartitionKey,
        here: Callable[[States], T],
        elsewhere: Callable[[int], Awaitable[T]],
    ) -> T:
        """Do it on the coordinator, and again while it is loaded or moves."""
        states = self._broker.share_states
        pause_s = FIRST_PAUSE_S
        for left in range(TRIES - 1, -1, -1):
            try:
                if not states.lookup.topic_exists:
                    await states.lookup.ensure_topic()
                node_id = states.lookup.leader_for(key.coordinator_key)
                if node_id != self._broker.node_id:
                    return await elsewhere(node_id)
                coordinator = states.home_of(key)
                result = here(states)
                await coordinator.settled()
                return result
            except KafkaError as error:
                if error.code not in _AGAIN or not left:
                    raise
            await trio.sleep(pause_s * (0.8 + 0.4 * self._broker.random.random()))
            pause_s = min(2 * pause_s, LAST_PAUSE_S)
        raise AssertionError("the last try has returned or raised")

    async def _ask(self, node_id: int, request: Request, response: type[Response]) -> Any:
        """The one row of another broker's answer; KafkaError."""
        version = response.VERSIONS[1]
        answer: Any = await self._broker.peers.ask(node_id, request, response, version=version)
        try:
            [result] = answer.results
            [row] = result.partitions
        except ValueError:
            text = f"broker {node_id} doesn't answer for the share partition"
            raise KafkaError(_CANT_TELL, text) from None
        if row.error_code:
            raise KafkaError(ErrorCode(row.error_code), row.error_message or "")
        return row
