"""Samples about the metrics that clients push, and those metrics themselves."""

from kwire.broker.broker import Broker
from kwire.metrics.samples import ClientSample, Samples


def gather_clients(broker: Broker, samples: Samples) -> None:
    """Add the metrics that clients have pushed; nothing before a client asks for a subscription."""
    if "client_metrics" not in vars(broker):
        return
    metrics = broker.client_metrics
    samples.put("kwire_client_instances", len(metrics))
    samples.put("kwire_client_pushes_total", metrics.pushes)
    samples.put("kwire_client_values_dropped_total", metrics.dropped)
    samples.of_clients = [ClientSample(*series, value) for series, value in metrics.series()]
