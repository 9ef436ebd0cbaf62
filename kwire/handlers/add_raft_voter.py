"""AddRaftVoter: would add a voter to the quorum; kwire has no voters but its brokers.

Behavior: always an error, which says that a broker becomes a voter when it registers
(``lib.voters``).
"""

from kwire.broker.broker import Broker
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import ALTER, once
from kwire.handlers.lib.voters import check_voter
from kwire.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

RIGHTS = (once(ALTER),)


def handle(request: AddRaftVoterRequest, context: RequestContext) -> AddRaftVoterResponse:
    """Say why no voter is added."""
    error = _reason(request, context.broker)
    return AddRaftVoterResponse(error_code=error.code, error_message=error.message)


def _reason(request: AddRaftVoterRequest, broker: Broker) -> KafkaError:
    voter_id = request.voter_id
    try:
        check_voter(broker, request.cluster_id, voter_id, request.voter_directory_id)
    except KafkaError as error:
        return error
    if voter_id in broker.image.brokers:
        return KafkaError(ErrorCode.DUPLICATE_VOTER, f"Broker {voter_id} is a voter already.")
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        "The voters are the brokers. Start another broker with the cluster's "
        "kwire.metadata.store, and it is one.",
    )
