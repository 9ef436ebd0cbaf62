"""RemoveRaftVoter: would remove a voter from the quorum; kwire has no voters but its brokers.

Behavior: always an error; that of a broker says how it leaves the cluster (``lib.voters``).
"""

from kwire.broker.broker import Broker
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import ALTER, once
from kwire.handlers.lib.voters import check_voter, stays
from kwire.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)

RIGHTS = (once(ALTER),)


def handle(request: RemoveRaftVoterRequest, context: RequestContext) -> RemoveRaftVoterResponse:
    """Say why no voter is removed."""
    error = _reason(request, context.broker)
    return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)


def _reason(request: RemoveRaftVoterRequest, broker: Broker) -> KafkaError:
    voter_id = request.voter_id
    try:
        check_voter(broker, request.cluster_id, voter_id, request.voter_directory_id)
    except KafkaError as error:
        return error
    if voter_id in broker.image.brokers:
        return stays(voter_id)
    return KafkaError(ErrorCode.VOTER_NOT_FOUND, f"Node {voter_id} is no voter.")
