"""Settings of groups that have to go together."""

import pytest

from kwire.config.broker import BrokerConfig
from kwire.config.groups import assignors
from kwire.config.settings import ConfigError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group.consumer.session.timeout.ms", "44999"),
        ("group.consumer.session.timeout.ms", "60001"),
        ("group.consumer.heartbeat.interval.ms", "4999"),
        ("group.consumer.heartbeat.interval.ms", "15001"),
        ("group.consumer.assignment.interval.ms", "15001"),
        ("group.consumer.max.session.timeout.ms", "44999"),
        ("group.consumer.assignors", "sticky"),
        ("group.consumer.assignors", ""),
        ("group.coordinator.rebalance.protocols", "consumer"),
    ],
)
def test_what_does_not_go_together_is_refused(name, value):
    """When the broker starts, by the name of the setting."""
    with pytest.raises(ConfigError, match=name):
        BrokerConfig.load({name: value})


def test_a_member_has_time_for_a_heartbeat():
    """Its interval is shorter than its session."""
    with pytest.raises(ConfigError, match="heartbeat"):
        BrokerConfig.load(
            {
                "group.consumer.min.session.timeout.ms": "5000",
                "group.consumer.session.timeout.ms": "5000",
            }
        )


def test_assignors_go_by_their_classes_too():
    """As in settings that were written for Kafka."""
    package = "org.apache.kafka.coordinator.group.assignor"
    config = BrokerConfig.load(
        {"group.consumer.assignors": f"{package}.RangeAssignor,{package}.UniformAssignor"}
    )
    assert assignors(config) == ("range", "uniform")
    assert assignors(BrokerConfig.load({})) == ("uniform", "range")
