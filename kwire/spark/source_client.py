"""Connects a pipeline's own client to the source, with the client options of ``[source.client]``.

These options have Kafka's names, and Spark's connector gets the same options: both clients take TLS
and the login from ``security.protocol``, ``ssl.…`` and ``sasl.…``. Other options are only for the
connector. References to ``config.providers`` keep secrets out of the pipeline's file; both clients
resolve these references.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kwire.cli.profiles import ProfileError, parse_addresses
from kwire.client.cluster import Cluster, open_cluster
from kwire.client.peer import OpenStream, open_tcp
from kwire.spark.settings import Source, WrongSetting


def addresses_of(source: Source) -> list[tuple[str, int]]:
    """Hosts and ports of a pipeline's cluster; WrongSetting."""
    try:
        return list(parse_addresses(source.bootstrap_servers))
    except ProfileError as error:
        raise WrongSetting(
            "source.bootstrap_servers", source.bootstrap_servers, str(error)
        ) from error


def opener_of(source: Source) -> OpenStream:
    """Opens streams with the TLS and the login of a source; WrongSetting, without secrets."""
    if not source.client:
        return open_tcp
    from kwire.config.providers import resolved
    from kwire.config.values import ConfigError
    from kwire.security.client_properties import opener

    try:
        return opener(resolved(source.client))
    except ConfigError as error:
        raise WrongSetting(f"source.client.{error.name}", error.value, error.allowed) from None


@asynccontextmanager
async def open_source(source: Source) -> AsyncIterator[Cluster]:
    """The source's cluster for the time of a block; WrongSetting."""
    async with open_cluster(addresses_of(source), open_stream=opener_of(source)) as cluster:
        yield cluster
