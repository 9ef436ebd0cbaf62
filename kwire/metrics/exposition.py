"""Samples as Prometheus reads them: text, or OpenMetrics if the client accepts it.

``prometheus_client`` writes the formats, and adds metrics of the process and of Python.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from kwire.metrics.definitions import COUNTER, HISTOGRAM, Definition, definitions
from kwire.metrics.samples import ClientSample, Sample, Samples, Times

_SHOWN = range(4, 26, 2)
"""The buckets that are shown, each for itself and those below: 16 µs, 64 µs, …, 16.8 s."""


class _Gathered(Collector):
    """Gives the registry the samples of one snapshot."""

    def __init__(self, samples: Samples) -> None:
        self._families = [*_families(samples), *_of_clients(samples.of_clients)]

    def collect(self) -> Iterator[Metric]:
        """The metrics with their samples."""
        return iter(self._families)


def exposition(samples: Samples, accept: str) -> tuple[bytes, str]:
    """The body and the content type of an answer to a client with this Accept header."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    registry.register(_Gathered(samples))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _families(samples: Iterable[Sample]) -> Iterator[Metric]:
    by_name: dict[str, list[Sample]] = {name: [] for name in definitions()}
    for sample in samples:
        by_name[sample.name].append(sample)
    for name, some in by_name.items():
        if some:
            yield _family(definitions()[name], some)


def _family(definition: Definition, samples: list[Sample]) -> Metric:
    name, text, labels = definition.name, definition.text, definition.labels
    if definition.kind == HISTOGRAM:
        histogram = HistogramMetricFamily(name, text, labels=labels)
        for sample in samples:
            assert isinstance(sample.value, Times)
            buckets, sum_s = _buckets(sample.value)
            histogram.add_metric(sample.labels, buckets, sum_s)
        return histogram
    is_counter = definition.kind == COUNTER
    family = (CounterMetricFamily if is_counter else GaugeMetricFamily)(name, text, labels=labels)
    for _, values, value in samples:
        assert not isinstance(value, Times)
        # A total over all topics has no label, as with the JMX exporter.
        family.add_sample(name, dict(zip(labels, values, strict=bool(values))), value)
    return family


def _of_clients(samples: Iterable[ClientSample]) -> Iterable[Metric]:
    """Metrics of clients, without a type: two clients may give a name different types."""
    families: dict[str, Metric] = {}
    for name, labels, value in samples:
        family = families.get(name)
        if family is None:
            family = families[name] = Metric(name, "Pushed by clients (KIP-714).", "unknown")
        family.add_sample(name, dict(labels), value)
    return families.values()


def _buckets(times: Times) -> tuple[list[tuple[str, float]], float]:
    """(upper bound in seconds, number of times up to it) of each bucket, and the sum in seconds."""
    buckets: list[tuple[str, float]] = []
    below = 0
    for number, count in enumerate(times.counts):
        below += count
        if number in _SHOWN:
            buckets.append((str((1 << number) / 1e6), below))
    return [*buckets, ("+Inf", below)], times.sum_us / 1e6
