"""The broker as its groups know it: topics, settings, and a budget of heartbeats."""

from collections.abc import Callable
from typing import NamedTuple

from kwire.coordinator.consumer.heartbeat_interval import BrokerHeartbeats
from kwire.coordinator.consumer.regexes import RegexMatches
from kwire.coordinator.consumer.settings import ConsumerSettings
from kwire.coordinator.consumer.topics import Topics, TopicSet
from kwire.coordinator.share.settings import ShareSettings
from kwire.coordinator.streams.settings import StreamsSettings


class Surroundings(NamedTuple):
    """The broker; ``settings_of`` and the like take a group's id.

    All groups of the broker share ``matches``: the topics that regular expressions match.
    """

    topics: Callable[[], Topics]
    settings_of: Callable[[str], ConsumerSettings]
    heartbeats: BrokerHeartbeats
    matches: RegexMatches
    share_settings_of: Callable[[str], ShareSettings] = lambda group_id: ShareSettings()
    streams_settings_of: Callable[[str], StreamsSettings] = lambda group_id: StreamsSettings()

    @classmethod
    def of_nothing(cls) -> "Surroundings":
        """A cluster without topics, with Kafka's settings."""
        return cls(
            TopicSet, lambda group_id: ConsumerSettings(), BrokerHeartbeats(), RegexMatches()
        )
