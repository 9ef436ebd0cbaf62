"""``/metrics``: the broker's metrics for Prometheus.

Rule: the metrics are gathered at most once in ``FRESH_S``, however many clients ask.
"""

import math
import os

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kwire.metrics.exposition import exposition
from kwire.metrics.samples import Sample, Samples
from kwire.metrics.snapshot import snapshot
from kwire.web.cross_loop_calls import BrokerCalls, Observed

FRESH_S = 1.0


class _Metrics:
    """The latest metrics, in each format that a client has asked for."""

    def __init__(self, broker_calls: BrokerCalls) -> None:
        self._broker_calls = broker_calls
        self._one_at_a_time = trio.Lock()
        self._gathered_ms = -math.inf
        self._samples = Samples()
        self._written: dict[bool, tuple[bytes, str]] = {}

    async def answer(self, request: Request) -> Response:
        """The metrics in the format that the client prefers."""
        accept = request.headers.get("accept", "")
        is_open = "application/openmetrics-text" in accept
        async with self._one_at_a_time:
            if self._broker_calls.steady_ms() - self._gathered_ms >= FRESH_S * 1000:
                self._samples = await self._broker_calls.run(_gather)
                self._samples += _room(self._samples)
                self._gathered_ms = self._broker_calls.steady_ms()
                self._written.clear()
            if is_open not in self._written:
                accept = "application/openmetrics-text; version=1.0.0" if is_open else ""
                self._written[is_open] = exposition(self._samples, accept)
            body, content_type = self._written[is_open]
        return Response(body, headers={"content-type": content_type})


def routes(broker_calls: BrokerCalls) -> list[Route]:
    """The routes of this module."""
    metrics = _Metrics(broker_calls)
    return [Route("/metrics", metrics.answer)]


async def _gather(observed: Observed) -> Samples:
    return await snapshot(observed.broker, observed.poller)


def _room(samples: Samples) -> list[Sample]:
    """The room on the disks. It is read in this thread, because a broken disk may make it wait."""
    found = []
    for sample in samples:
        if sample.name == "kwire_log_directory_online" and sample.value:
            try:
                disk = os.statvfs(sample.labels[0])
            except OSError:
                continue
            room_bytes = disk.f_bavail * disk.f_frsize
            found.append(Sample("kwire_log_directory_free_bytes", sample.labels, room_bytes))
    return found
