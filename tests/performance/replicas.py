"""The sequences of requests at replication factor 3: acks=all on the leader of two followers.

The followers fetch as brokers do: in a session of version 18, with a fetch that waits for the next
append. It tells that they have everything before, so the second of these fetches moves the high
watermark, which answers the producer.
"""

from kwire.metadata.changes import BrokerRegistered
from kwire.metadata.image import BrokerImage
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.broker.replicated import FOLLOWERS, create_replicated
from tests.performance.desk import Message, sent
from tests.performance.messages import TOPIC, batch, produce

VERSION = 18
BROKER_EPOCH = 5
WAIT_MS = 30_000
IN_FLIGHT = 10


class _Follower:
    """One follower of partition 0, on a connection of its own."""

    def __init__(self, node_id, connection, topic_id):
        self._replica = ReplicaState(replica_id=node_id, replica_epoch=BROKER_EPOCH)
        self._connection = connection
        self._topic_id = topic_id
        self._session_id = 0

    def _fetch(self, session_epoch, end, known=0, brings=0):
        """A fetch from the follower's end; ``known`` is its high watermark."""
        wanted = FetchPartition(
            fetch_offset=end, partition_max_bytes=1_000_000, high_watermark=known
        )
        request = FetchRequest(
            replica_state=self._replica,
            max_wait_ms=WAIT_MS if session_epoch else 0,
            min_bytes=1,
            max_bytes=10_000_000,
            session_id=self._session_id,
            session_epoch=session_epoch,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=[wanted])],
        )
        return Message(request, VERSION, self._connection, brings=brings)

    async def begin(self, desk):
        """Open the session, and wait for the first records."""
        self._session_id = (await desk.ask(self._fetch(0, 0))).session_id
        await desk.send(self._connection, sent(self._fetch(1, 0)).frames)

    def goes_on(self, n, end, known):
        """The n-th fetch that waits. It is sent when the one before it has brought records."""
        return sent(self._fetch(n + 2, end, known, brings=1))


async def _followed(desk):
    """The followers of a topic that this broker leads."""
    broker = desk.broker
    registered = [
        BrokerRegistered(BrokerImage(one, None, (), epoch=BROKER_EPOCH)) for one in FOLLOWERS
    ]
    await broker.commit(lambda _image: registered)
    await create_replicated(broker, TOPIC)
    topic_id = broker.image.topics_by_name[TOPIC].topic_id
    followers = [_Follower(node, number + 1, topic_id) for number, node in enumerate(FOLLOWERS)]
    for one in followers:
        await one.begin(desk)
    return followers


def _replicated(followers, appended, count):
    """The stages of requests that append so many records each time."""

    def nth(n):
        begin, end = n * count, (n + 1) * count
        return [[appended], *([one.goes_on(n, end, begin)] for one in followers)]

    return nth


async def produce_3_replicas(desk):
    """One record, acknowledged when both followers have it."""
    return _replicated(await _followed(desk), sent(produce(batch())), 1)


async def produce_3_replicas_10_in_flight(desk):
    """Ten requests that are read together, and wait together."""
    together = sent(produce(batch()), times=IN_FLIGHT)
    return _replicated(await _followed(desk), together, IN_FLIGHT)


REPLICATED = {
    "produce at 3 replicas, 1 record": produce_3_replicas,
    "produce at 3 replicas, 10 requests in one read": produce_3_replicas_10_in_flight,
}
