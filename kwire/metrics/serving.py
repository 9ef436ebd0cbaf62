"""Samples about requests, connections, logs as a whole, the event loop and its threads."""

import time
from collections import Counter

from kwire.broker.broker import Broker
from kwire.budget.slices import Slices
from kwire.connection.poller import Poller
from kwire.errors import ErrorCode
from kwire.handlers import APIS, OWN_APIS
from kwire.metrics.samples import Samples, Times

PRODUCE_KEY, FETCH_KEY = 0, 1
_KINDS = {PRODUCE_KEY: "produce", FETCH_KEY: "fetch", 78: "sharefetch", 79: "shareacknowledgement"}
"""The APIs that Kafka counts in metrics of their own, and the names of these."""

_METRICS = "kafka_server_brokertopicmetrics_"


def _api_name(api_key: int) -> str:
    return (APIS.get(api_key) or OWN_APIS[api_key]).name


def gather_requests(broker: Broker, samples: Samples) -> None:
    """Add the samples of requests."""
    counters = broker.counters
    for api_key in sorted({PRODUCE_KEY, FETCH_KEY, *counters.requests}):
        name = _api_name(api_key)
        times = counters.times_of(api_key)
        singles = (counters.single_times,) if api_key == PRODUCE_KEY else ()
        total = Times.of(times.total, *singles)
        count = sum(total.counts)
        samples.put("kafka_network_requestmetrics_requests_total", count, name)
        kind = _KINDS.get(api_key)
        if kind is not None:
            errors = sum(n for (key, _), n in counters.errors.items() if key == api_key)
            samples.put(f"{_METRICS}total{kind}requests_total", count)
            samples.put(f"{_METRICS}failed{kind}requests_total", errors)
        for phase in ("queue", "local", "wait"):
            samples.put("kwire_request_seconds", Times.of(getattr(times, phase)), name, phase)
        samples.put("kwire_request_seconds", total, name, "total")
    for (api_key, code), count in sorted(counters.errors.items()):
        name = "kafka_network_requestmetrics_errors_total"
        samples.put(name, count, _api_name(api_key), ErrorCode(code).name)


async def gather_connections(
    broker: Broker, poller: Poller, slices: Slices, samples: Samples
) -> None:
    """Add the samples of connections."""
    counters = broker.counters
    samples.put("kwire_connections_accepted_total", counters.accepted)
    samples.put("kwire_connections_refused_total", counters.refused)
    samples.put("kwire_connections_malformed_total", counters.malformed)
    for kind, count in sorted(counters.throttled.items()):
        samples.put("kwire_quota_throttled_total", count, kind)
        samples.put("kwire_quota_throttle_seconds_total", counters.throttled_ms[kind] / 1000, kind)
    waiting = 0 if broker.quotas is None else len(broker.quotas.pauses)
    samples.put("kwire_quota_waiting_connections", waiting)
    listeners = Counter({listener.name: 0 for listener in broker.config.listeners()})
    for connection in list(poller.connections):
        await slices.give_way()
        listeners[connection.listener] += 1
    for listener, count in listeners.items():
        samples.put("kwire_connections", count, listener)


def gather_logs(broker: Broker, samples: Samples) -> None:
    """Add the samples of flushes, retention and compaction."""
    samples.put("kwire_log_flush_seconds", Times.of(broker.flusher.times))
    samples.put("kwire_log_deleted_segments_total", broker.log_manager.deleted_segments)
    samples.put("kwire_start_seconds", broker.counters.start_s)
    samples.put("kwire_start_logs_seconds", broker.counters.start_logs_s)
    compaction = vars(broker).get("compaction")
    if compaction is None:
        return
    metrics = compaction.manager.metrics
    samples.put("kwire_compaction_cleans_total", metrics.cleans)
    samples.put("kwire_compaction_read_bytes_total", metrics.total.bytes_read)
    samples.put("kwire_compaction_written_bytes_total", metrics.total.bytes_written)
    samples.put("kwire_compaction_seconds_total", metrics.total.total_s)
    samples.put("kwire_compaction_max_dirty_ratio", metrics.max_dirty_percent / 100)
    samples.put("kwire_compaction_uncleanable_logs", len(compaction.manager.uncleanable))


def gather_loop(broker: Broker, samples: Samples) -> None:
    """Add the samples of the event loop, in whose thread this runs."""
    samples.put("kwire_loop_pass_seconds", Times.of(broker.counters.passes))
    samples.put("kwire_loop_lag_seconds", Times.of(broker.counters.loop_lag))
    samples.put("kwire_loop_cpu_seconds_total", time.thread_time())
    samples.put("kwire_bugs_total", broker.bugs.seen)
    for kind in ("syncing", "logs", "cold_reads", "housekeeping", "computing", "deciding"):
        samples.put("kwire_threads_running", getattr(broker.threads, kind).running, kind)
