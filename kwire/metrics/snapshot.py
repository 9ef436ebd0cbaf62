"""All samples of a broker, gathered in its event loop in slices."""

from kwire import __version__
from kwire.broker.broker import Broker
from kwire.budget.slices import Slices
from kwire.connection.poller import Poller
from kwire.metrics.clients import gather_clients
from kwire.metrics.groups import gather_groups, gather_transactions
from kwire.metrics.samples import Samples
from kwire.metrics.serving import (
    gather_connections,
    gather_logs,
    gather_loop,
    gather_requests,
)
from kwire.metrics.share_groups import gather_share_groups
from kwire.metrics.topics import gather_topics


async def snapshot(broker: Broker, poller: Poller) -> Samples:
    """The values of all metrics now."""
    samples, slices = Samples(), Slices()
    samples.put("kwire_build_info", 1, __version__)
    await gather_topics(broker, slices, samples)
    await gather_groups(broker, slices, samples)
    await gather_share_groups(broker, slices, samples)
    await gather_transactions(broker, slices, samples)
    await gather_connections(broker, poller, slices, samples)
    gather_requests(broker, samples)
    gather_logs(broker, samples)
    gather_clients(broker, samples)
    gather_loop(broker, samples)
    return samples
