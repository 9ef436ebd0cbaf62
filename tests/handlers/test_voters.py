"""AddRaftVoter, RemoveRaftVoter and UnregisterController say that brokers are the voters."""

import pytest

from kwire.errors import ErrorCode
from kwire.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kwire.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from kwire.protocol.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from kwire.protocol.types import ZERO_UUID
from tests.support.in_process import running_server

VOTER = {"cluster_id": None, "voter_id": 2, "voter_directory_id": bytes(range(16))}
"""One that isn't there."""


@pytest.fixture
async def client(tmp_path):
    """Of a cluster of one broker, whose node id is 1."""
    async with running_server(tmp_path) as server:
        yield await server.connect()


WRONG = (
    ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID, 'The given id "other"'),
    ({"voter_id": -1}, ErrorCode.INVALID_REQUEST, "a valid voter"),
    ({"voter_directory_id": ZERO_UUID}, ErrorCode.INVALID_REQUEST, "a valid voter"),
)
"""What is wrong in a request for a voter, whether it would come or go."""


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        ({"voter_id": 1}, ErrorCode.DUPLICATE_VOTER, "is a voter already"),
        ({"voter_id": 2}, ErrorCode.INVALID_REQUEST, "Start another broker with"),
        *WRONG,
    ],
)
@pytest.mark.parametrize("version", [0, 1])
async def test_no_voter_is_added(client, version, fields, code, reason):
    request = AddRaftVoterRequest(**{**VOTER, **fields})
    answer = await client.request(request, version, AddRaftVoterResponse)
    assert answer.error_code == code
    assert reason in answer.error_message


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        ({"voter_id": 1}, ErrorCode.INVALID_REQUEST, "kafka-cluster.sh unregister"),
        ({"voter_id": 2}, ErrorCode.VOTER_NOT_FOUND, "Node 2 is no voter"),
        *WRONG,
    ],
)
async def test_no_voter_is_removed(client, fields, code, reason):
    request = RemoveRaftVoterRequest(**{**VOTER, **fields})
    answer = await client.request(request, 0, RemoveRaftVoterResponse)
    assert answer.error_code == code
    assert reason in answer.error_message


@pytest.mark.parametrize(
    ("node_id", "code", "reason"),
    [
        (1, ErrorCode.INVALID_REQUEST, "kafka-cluster.sh unregister"),
        (9, ErrorCode.CONTROLLER_ID_NOT_REGISTERED, "Controller ID 9 is not currently registered"),
    ],
)
async def test_no_controller_is_unregistered(client, node_id, code, reason):
    request = UnregisterControllerRequest(controller_id=node_id)
    answer = await client.request(request, 0, UnregisterControllerResponse)
    assert answer.error_code == code
    assert reason in answer.error_message
