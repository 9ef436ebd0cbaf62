"""RemoveRaftVoter: would remove a voter from the quorum; kwire has no voters but its brokers.

Behavior: always an error; that of a broker says how it leaves the cluster (``lib.voters``).
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import ALTER, once
from kwire.handlers.lib.voters import refusal, stays
from kwire.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)

RIGHTS = (once(ALTER),)


def handle(request: RemoveRaftVoterRequest, context: RequestContext) -> RemoveRaftVoterResponse:
    """Say why no voter is removed."""
    error = refusal(request, context.broker, of_voter=stays, of_other=_is_no_voter)
    return RemoveRaftVoterResponse(error_code=error.code, error_message=error.message)


def _is_no_voter(voter_id: int) -> KafkaError:
    return KafkaError(ErrorCode.VOTER_NOT_FOUND, f"Node {voter_id} is no voter.")
