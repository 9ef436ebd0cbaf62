"""The partitions of a response to Fetch: all, or in a session those with news (KIP-227)."""

from collections.abc import Iterable

from kwire.broker.fetch_sessions import FetchSession, PartitionKey
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.messages.fetch import FetchableTopicResponse, PartitionData


def remember(
    session: FetchSession,
    partitions: Iterable[tuple[PartitionKey, PartitionData]],
    *,
    incremental: bool,
) -> list[tuple[PartitionKey, PartitionData]]:
    """The partitions of the response; if ``incremental``, only those with news.

    The session remembers them.
    """
    told = []
    for key, data in partitions:
        cached = session.partitions.get(key)
        news = cached is None or cached.is_news(data)
        if news or not incremental:
            told.append((key, data))
        if cached is not None and isinstance(data.records, FileSlice):
            session.move_to_end(key)
    return told


def add_by_topic(
    topics: list[FetchableTopicResponse],
    partitions: Iterable[tuple[PartitionKey, PartitionData]],
) -> None:
    """Add partitions; neighbors of the same topic share one entry."""
    topic = topics[-1] if topics else None
    for (name, topic_id, _), data in partitions:
        if topic is None or topic.topic != name or topic.topic_id != topic_id:
            topic = FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[])
            topics.append(topic)
        topic.partitions.append(data)
