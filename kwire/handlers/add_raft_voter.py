"""AddRaftVoter: would add a voter to the quorum; kwire has no voters but its brokers.

Behavior: always an error, which says that a broker becomes a voter when it registers
(``lib.voters``).
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import ALTER, once
from kwire.handlers.lib.voters import refusal
from kwire.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

RIGHTS = (once(ALTER),)


def handle(request: AddRaftVoterRequest, context: RequestContext) -> AddRaftVoterResponse:
    """Say why no voter is added."""
    error = refusal(request, context.broker, of_voter=_is_voter, of_other=_is_started)
    return AddRaftVoterResponse(error_code=error.code, error_message=error.message)


def _is_voter(voter_id: int) -> KafkaError:
    return KafkaError(ErrorCode.DUPLICATE_VOTER, f"Broker {voter_id} is a voter already.")


def _is_started(voter_id: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        "The voters are the brokers. Start another broker with the cluster's "
        "kwire.metadata.store, and it is one.",
    )
