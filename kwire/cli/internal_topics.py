"""Which internal topics of coordinators are missing and can't be created, for ``kwire health``.

An internal topic is created when a client first needs a coordinator. In a cluster with fewer
brokers than the topic shall have replicas, that fails. A kwire without a store for several machines
makes these topics with one replica, whatever its settings say.
"""

from kwire.client.cluster import Cluster
from kwire.client.configs import Resource, ResourceType, describe_configs
from kwire.client.errors import ClientError
from kwire.config.internal_topics import FACTORS
from kwire.config.metadata_store import SETTING
from kwire.errors import ErrorCode, KafkaError


async def too_few_brokers(cluster: Cluster, node: int, brokers: int) -> dict[str, str]:
    """Why a missing internal topic can't be created, by its name.

    ``node`` is a broker to ask for its settings, ``brokers`` the number of registered brokers. What
    the user has no right to see is left out.
    """
    try:
        told = (await cluster.metadata(FACTORS)).topics
        missing = [
            one.name for one in told if one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ]
        factors = await _factors(cluster, node) if missing else {}
    except (ClientError, KafkaError):
        return {}
    return {
        name: f"{name} can't be created: {FACTORS[name]} is {factors[name]}, and the cluster has "
        f"{brokers} broker{'s' * (brokers != 1)}"
        for name in missing
        if name in factors and factors[name] > brokers
    }


async def _factors(cluster: Cluster, node: int) -> dict[str, int]:
    """How many replicas a broker gives each internal topic; empty for one. KafkaError."""
    resource = Resource(ResourceType.BROKER, str(node))
    rows = await describe_configs(cluster, resource, [*FACTORS.values(), SETTING])
    values = {row.name: row.value for row in rows}
    if SETTING in values and not values[SETTING]:
        return {}
    found = {name: values.get(setting) for name, setting in FACTORS.items()}
    return {name: int(value) for name, value in found.items() if value}
