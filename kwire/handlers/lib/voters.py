"""The voters of the quorum, as tools see them: a broker is a voter while it is registered.

kwire keeps its metadata in a store, and all brokers follow it, so there are no controllers beside
the brokers (``describe_quorum``). No request makes a voter or removes one: a broker does, when it
registers or is unregistered. The answers are those that Kafka has for a voter that is there, or
isn't (decision 69).
"""

from collections.abc import Callable

from kwire.broker.broker import Broker
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.add_raft_voter import AddRaftVoterRequest
from kwire.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kwire.protocol.types import ZERO_UUID


def refusal(
    request: AddRaftVoterRequest | RemoveRaftVoterRequest,
    broker: Broker,
    *,
    of_voter: Callable[[int], KafkaError],
    of_other: Callable[[int], KafkaError],
) -> KafkaError:
    """The error for a request about one voter: its own errors, then that of its node id."""
    cluster_id, voter_id = request.cluster_id, request.voter_id
    if cluster_id is not None and cluster_id != broker.cluster_id:
        return KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f'The given id "{cluster_id}" doesn\'t match the cluster id "{broker.cluster_id}"',
        )
    if voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        return KafkaError(ErrorCode.INVALID_REQUEST, "The request didn't include a valid voter.")
    return of_voter(voter_id) if voter_id in broker.image.brokers else of_other(voter_id)


def stays(voter_id: int) -> KafkaError:
    """The error for a voter that a request would remove."""
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"Broker {voter_id} is a voter while it is registered. To remove it, stop it, and then: "
        f"kafka-cluster.sh unregister --bootstrap-server HOST:PORT --id {voter_id}",
    )
