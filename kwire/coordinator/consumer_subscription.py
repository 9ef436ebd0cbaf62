"""The subscriptions of members of classic groups of consumers: ``ConsumerProtocol``.

Format: an int16, the version, comes first; every later version begins as version 0 does.
"""

from collections.abc import Iterable

from kwire.protocol.codec import MalformedRequest, decoder
from kwire.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of groups whose subscriptions kwire can read."""

_VERSION_BYTES = 2


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all subscriptions together; None if one subscription is unreadable."""
    decode = decoder(ConsumerProtocolSubscription, 0)
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(decode(subscription, _VERSION_BYTES)[0].topics)
    except MalformedRequest:
        return None
    return frozenset(topics)
