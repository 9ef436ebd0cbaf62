"""The APIs of the share coordinator over the wire, and the persister beside it."""

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import SHARE_STATE_TOPIC
from kwire.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.share.key import SharePartitionKey
from kwire.share.state_batches import StateBatch
from kwire.share.state_coordinator import NO_STATE, StateSummary, StateWrite
from kwire.testing.waiting import until
from tests.support.in_process import running_server

GROUP = "workers"
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "2",
}
SHARE = 2


@pytest.fixture
async def server(tmp_path):
    """A running broker with the topic ``orders``."""
    async with running_server(tmp_path, SETTINGS) as running:
        await running.topic("orders", partitions=2)
        yield running


@pytest.fixture
def key(server) -> SharePartitionKey:
    """A share partition of the topic."""
    topic = server.broker.image.topics_by_name["orders"]
    return SharePartitionKey(GROUP, topic.topic_id, 1)


async def ask(server, api, name, fields, key, version=0):
    """Send a request about one share partition; its row of the answer."""
    data = {"Initialize": "InitializeState", "Read": "ReadState", "Write": "WriteState"}
    data |= {"Delete": "DeleteState", "Summary": "ReadStateSummary"}
    full = {"Summary": "ReadShareGroupStateSummary"}.get(name, f"{name}ShareGroupState")
    row = api.PartitionData(partition=key.partition, **fields)
    topic = getattr(api, f"{data[name]}Data")(topic_id=key.topic_id, partitions=[row])
    request = getattr(api, f"{full}Request")(group_id=key.group_id, topics=[topic])
    answer = await server.request(request, version, getattr(api, f"{full}Response"))
    [result] = answer.results
    [answered] = result.partitions
    assert (result.topic_id, answered.partition) == (key.topic_id, key.partition)
    return answered


async def find(server, key_text):
    """Ask for a coordinator of a share partition."""
    request = FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key_text])
    return (await server.request(request, 6, FindCoordinatorResponse)).coordinators[0]


async def initialize(server, key, **fields):
    """Begin a share partition."""
    return await ask(server, initialize_share_group_state, "Initialize", fields, key)


async def test_the_coordinator_of_a_share_partition_is_found_and_its_topic_made(server, key):
    found = await find(server, key.coordinator_key)
    assert (found.error_code, found.node_id) == (0, server.broker.node_id)
    settings = server.broker.topic_settings(SHARE_STATE_TOPIC)
    assert (settings["cleanup.policy"], settings["retention.ms"]) == (["delete"], -1)
    assert len(server.broker.image.topics_by_name[SHARE_STATE_TOPIC].partitions) == 2
    assert (await find(server, "workers:0")).error_code == ErrorCode.INVALID_REQUEST


async def test_a_states_life(server, key):
    await find(server, key.coordinator_key)
    assert (await initialize(server, key, state_epoch=0, start_offset=10)).error_code == 0
    batch = write_share_group_state.StateBatch(
        first_offset=10, last_offset=19, delivery_state=2, delivery_count=1
    )
    fields = {"leader_epoch": 4, "start_offset": -1, "state_batches": [batch]}
    fields["delivery_complete_count"] = 10
    assert (await ask(server, write_share_group_state, "Write", fields, key, 1)).error_code == 0
    read = await ask(server, read_share_group_state, "Read", {"leader_epoch": 5}, key)
    assert (read.start_offset, len(read.state_batches)) == (10, 1)
    late = await ask(server, write_share_group_state, "Write", fields, key, 1)
    assert late.error_code == ErrorCode.FENCED_LEADER_EPOCH
    api = read_share_group_state_summary
    told = await ask(server, api, "Summary", {"leader_epoch": -1}, key, 1)
    assert (told.leader_epoch, told.start_offset, told.delivery_complete_count) == (5, 10, 10)
    assert (await ask(server, delete_share_group_state, "Delete", {}, key)).error_code == 0
    again = await ask(server, read_share_group_state, "Read", {"leader_epoch": 5}, key)
    assert again.error_code == ErrorCode.INVALID_REQUEST
    assert (await ask(server, api, "Summary", {"leader_epoch": -1}, key, 1)).start_offset == -1


async def test_a_partition_that_does_not_exist_has_no_state(server, key):
    await find(server, key.coordinator_key)
    beyond = key._replace(partition=2)
    answer = await initialize(server, beyond, state_epoch=0, start_offset=0)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = await initialize(server, key._replace(partition=-1), state_epoch=0)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


async def test_the_persister_keeps_states_over_a_restart(tmp_path):
    async with running_server(tmp_path, SETTINGS) as running:
        await running.topic("orders", partitions=2)
        topic_id = running.broker.image.topics_by_name["orders"].topic_id
        keys = [SharePartitionKey(GROUP, topic_id, index) for index in range(2)]
        persister = running.broker.persister
        for key in keys:
            await persister.initialize(key, 1, 5)
            for offset in range(5, 9):
                write = StateWrite(1, 2, -1, offset, [StateBatch(offset, offset, 2, 1)])
                await persister.write(key, write)
    async with running_server(tmp_path, SETTINGS) as running:
        persister = running.broker.persister
        for key in keys:
            read = await persister.read(key, 2)
            assert read == (1, 5, [StateBatch(5, 8, 2, 1)], 8)
            assert await persister.read_summary(key) == StateSummary(1, 2, 5, 8)
            await persister.delete(key)
            assert await persister.read_summary(key) == NO_STATE


async def test_the_persister_gives_up_after_an_error_that_stays(server, key):
    with pytest.raises(KafkaError) as error:
        await server.broker.persister.read(key, 0)
    assert error.value.code is ErrorCode.INVALID_REQUEST


async def test_the_states_of_a_deleted_topic_are_forgotten(server, key):
    persister = server.broker.persister
    await persister.initialize(key, 0, 0)
    await server.delete_topic("orders")
    loaded = server.broker.share_states.loaded()
    await until(lambda: not any(one.coordinator.states for one in loaded))


async def test_records_before_the_snapshots_are_pruned(server, key, monkeypatch):
    persister, states = server.broker.persister, server.broker.share_states
    await persister.initialize(key, 0, 0)
    for offset in range(6):
        write = StateWrite(0, 0, -1, -1, [StateBatch(offset, offset, 2, 1)])
        await persister.write(key, write)
    partition = states.home_of(key).partition
    await states.prune()
    assert partition.log.log_start_offset == 6
    assert partition.log.log_end_offset == 7
