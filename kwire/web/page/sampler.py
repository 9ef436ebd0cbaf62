"""Samples the whole broker from time to time, for the lists and charts of the page.

Rules:

- A sample costs the broker about ``STEP_S`` for each partition, topic, group, offset and assigned
  partition, in slices.
  The next sample comes after ``EVERY_S``, or after ``SPARE`` times the cost of the last one. So
  samples take a small part of the broker's time, however many partitions there are.
- While a user watches the page, a sample is taken each ``FRESH_S``, or after ``SPARE_WATCHED``
  times the cost of the last one.
- The partitions of groups that other brokers lead are asked for (``ends``), and counted if their
  leaders answer.
- The lag is missing for groups beyond ``MAX_GROUPS``, and for groups whose offsets are beyond
  ``MAX_OFFSETS`` in all.
"""

from collections import deque
from typing import NamedTuple

import trio

from kwire.broker.broker import Broker
from kwire.broker.groups import LoadedCoordinator
from kwire.broker.metrics_counters import MetricsCounters
from kwire.budget.slices import Slices
from kwire.coordinator.group import GroupType
from kwire.coordinator.share.group import ShareGroup
from kwire.handlers import PRODUCE_KEY
from kwire.metadata.image import TopicImage
from kwire.share.key import SharePartitionKey
from kwire.web.cross_loop_calls import BrokerCalls, NotServing, Observed
from kwire.web.page.assignments import assigned_partitions
from kwire.web.page.ends import Key, OtherLeaders

EVERY_S = 10.0
FRESH_S = 1.9
STEP_S = 3e-6
SPARE = 200
SPARE_WATCHED = 20
POINTS_KEPT = 500
MINUTES_KEPT = 24 * 60
MINUTE_MS = 60_000
LAG_POINTS_KEPT = 360
LAG_EVERY_MS = 9_000
SLOW = 0.99
MAX_GROUPS = 1_000
MAX_OFFSETS = 50_000
MAX_TOPICS_OF_GROUP = 50


class TopicSample(NamedTuple):
    """A topic: sums over its partitions. Counts begin when the broker starts."""

    partitions: int
    offline: int
    size_bytes: int
    messages_in: int
    bytes_in: int
    bytes_out: int


class GroupSample(NamedTuple):
    """A group; its lag is None if it was not summed up.

    ``uncounted`` partitions are missing in the lag: no broker answers for them.
    """

    group_id: str
    kind: str
    state: str
    members: int
    lag: int | None
    topics: tuple[str, ...]
    uncounted: int = 0


class Totals(NamedTuple):
    """Counters of the whole broker since its start."""

    messages_in: int
    bytes_in: int
    bytes_out: int
    requests: int
    errors: int
    connections: int
    open_transactions: int
    produce_times: tuple[int, ...]


class Sample(NamedTuple):
    """The values of one sample, and how many steps it took."""

    at_ms: int
    steady_ms: int
    steps: int
    totals: Totals
    topics: dict[str, TopicSample]
    groups: list[GroupSample]


class Point(NamedTuple):
    """The rates at one time, for the charts."""

    at_ms: int
    messages_in: float
    bytes_in: float
    bytes_out: float
    requests: float
    produce_s: float
    lag: int


class Rates(NamedTuple):
    """The rates of a topic, per second."""

    messages_in: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0


class Sampler:
    """The sampler of one HTTP port; only the port's own thread may use it."""

    def __init__(self, broker_calls: BrokerCalls) -> None:
        self._broker_calls = broker_calls
        self._one_at_a_time = trio.Lock()
        self._before: Sample | None = None
        self._latest: Sample | None = None
        self._cost_s = 0.0
        self._points: deque[Point] = deque(maxlen=POINTS_KEPT)
        self._minutes: deque[Point] = deque(maxlen=MINUTES_KEPT)
        self.lags: dict[str, deque[tuple[int, int]]] = {}
        self.leaders = OtherLeaders()
        """What only the broker's event loop may use."""

    async def run(self) -> None:
        """Take samples from time to time, forever."""
        while True:
            try:
                await self.latest(EVERY_S / 2)
            except NotServing:
                pass
            except Exception as error:
                import logging

                logging.getLogger(__name__).error("bug in sampling the broker", exc_info=error)
            await trio.sleep(max(EVERY_S, self._cost_s * SPARE))

    async def latest(self, max_age_s: float | None = None) -> Sample:
        """A sample that is not older than this, or than ``FRESH_S``; NotServing."""
        async with self._one_at_a_time:
            now_ms = self._broker_calls.steady_ms()
            wanted_s = FRESH_S if max_age_s is None else max_age_s
            max_age_s = max(wanted_s, self._cost_s * SPARE_WATCHED)
            if self._latest is None or now_ms - self._latest.steady_ms >= max_age_s * 1000:
                sample = await self._broker_calls.run(take_sample, self.leaders)
                self._cost_s = sample.steps * STEP_S
                self._add_sample(sample)
            assert self._latest is not None
            return self._latest

    def points(self, since_ms: int) -> list[Point]:
        """The points from a time on: each one of the last minutes, before that one a minute."""
        begin_ms = self._points[0].at_ms if self._points else since_ms
        before = [one for one in self._minutes if since_ms <= one.at_ms < begin_ms]
        return before + [one for one in self._points if one.at_ms >= since_ms]

    def rates(self, topic: str) -> Rates:
        """The rates of a topic between the two latest samples; zero before there are two."""
        before, latest = self._before, self._latest
        if before is None or latest is None:
            return Rates()
        old, new = before.topics.get(topic), latest.topics.get(topic)
        if old is None or new is None:
            return Rates()
        span_s = _span_s(before, latest)
        return Rates(
            max(0, new.messages_in - old.messages_in) / span_s,
            max(0, new.bytes_in - old.bytes_in) / span_s,
            max(0, new.bytes_out - old.bytes_out) / span_s,
        )

    def _add_sample(self, sample: Sample) -> None:
        before, self._before, self._latest = self._latest, self._latest, sample
        self._note_lags(sample)
        if before is None:
            return
        span_s = _span_s(before, sample)
        old, new = before.totals, sample.totals
        point = Point(
            sample.at_ms,
            max(0, new.messages_in - old.messages_in) / span_s,
            max(0, new.bytes_in - old.bytes_in) / span_s,
            max(0, new.bytes_out - old.bytes_out) / span_s,
            max(0, new.requests - old.requests) / span_s,
            _slow_s(old.produce_times, new.produce_times),
            sum(group.lag or 0 for group in sample.groups),
        )
        self._points.append(point)
        if not self._minutes or point.at_ms - self._minutes[-1].at_ms >= MINUTE_MS:
            self._minutes.append(point)
        else:
            self._minutes[-1] = _largest(self._minutes[-1], point)

    def _note_lags(self, sample: Sample) -> None:
        kept: dict[str, deque[tuple[int, int]]] = {}
        for group in sample.groups:
            if group.lag is None:
                continue
            lags = self.lags.get(group.group_id)
            if lags is None:
                lags = deque(maxlen=LAG_POINTS_KEPT)
            if not lags or sample.at_ms - lags[-1][0] >= LAG_EVERY_MS:
                lags.append((sample.at_ms, group.lag))
            kept[group.group_id] = lags
        self.lags = kept


def _largest(minute: Point, point: Point) -> Point:
    """The point of a minute: its peaks, at the time at which it began."""
    return Point(
        minute.at_ms,
        max(minute.messages_in, point.messages_in),
        max(minute.bytes_in, point.bytes_in),
        max(minute.bytes_out, point.bytes_out),
        max(minute.requests, point.requests),
        max(minute.produce_s, point.produce_s),
        max(minute.lag, point.lag),
    )


def _span_s(before: Sample, after: Sample) -> float:
    """The time between two samples, a suspend of the machine included."""
    return max(after.steady_ms - before.steady_ms, 1) / 1000


async def take_sample(observed: Observed, leaders: OtherLeaders) -> Sample:
    """Sample the whole broker, in its event loop."""
    broker, slices = observed.broker, Slices()
    topics, open_transactions = await _topics(broker, slices)
    groups, offsets = await _groups(broker, slices, leaders)
    counters, gone = broker.counters, broker.gone
    totals = Totals(
        gone.messages_in + sum(topic.messages_in for topic in topics.values()),
        gone.bytes_in + sum(topic.bytes_in for topic in topics.values()),
        gone.bytes_out + sum(topic.bytes_out for topic in topics.values()),
        counters.singles + sum(sum(times.total.counts) for times in counters.requests.values()),
        sum(counters.errors.values()),
        len(observed.poller.connections),
        open_transactions,
        _produce_times(counters),
    )
    partitions = sum(topic.partitions for topic in topics.values())
    steps = partitions + len(topics) + len(groups) + offsets
    return Sample(broker.now_ms(), broker.clock.steady_ms(), steps, totals, topics, groups)


def _produce_times(counters: MetricsCounters) -> tuple[int, ...]:
    """The number of Produce requests by their duration, in the buckets of the counters."""
    single, other = counters.single_times.counts, counters.requests.get(PRODUCE_KEY)
    if other is None:
        return tuple(single)
    return tuple(map(sum, zip(single, other.total.counts, strict=True)))


def _slow_s(old: tuple[int, ...], new: tuple[int, ...]) -> float:
    """The time that 99 % of the requests since the last sample didn't reach; 0 without any."""
    counts = [max(0, after - before) for before, after in zip(old, new, strict=True)]
    left = sum(counts) * SLOW
    for bucket, count in enumerate(counts):
        left -= count
        if count and left <= 0:
            return float((1 << bucket) / 1e6)
    return 0.0


async def _topics(broker: Broker, slices: Slices) -> tuple[dict[str, TopicSample], int]:
    """Every topic by name, and the number of transactions that are open in partitions."""
    sums: dict[str, list[int]] = {}
    open_transactions: set[int] = set()
    for partition in broker.partitions():
        await slices.give_way()
        topic = sums.get(partition.topic)
        if topic is None:
            topic = sums[partition.topic] = [0, 0, 0, 0, 0]
        topic[0] += not partition.is_offline
        topic[1] += partition.log.size_bytes
        topic[2] += partition.messages_in
        topic[3] += partition.bytes_in
        topic[4] += partition.bytes_out
        if partition.log.producers.open_transactions:
            open_transactions.update(partition.log.producers.open_transactions)
    samples = {}
    for name, image in broker.image.topics_by_name.items():
        await slices.give_way()
        sums_here = sums.get(name, [0, 0, 0, 0, 0])
        count, served = len(image.partitions), sums_here[0]
        offline = 0 if served == count else await offline_of(broker, image, slices)
        samples[name] = TopicSample(count, offline, *sums_here[1:])
    return samples, len(open_transactions)


async def offline_of(broker: Broker, topic: TopicImage, slices: Slices) -> int:
    """How many partitions of a topic nobody leads; other brokers lead some that aren't here."""
    offline = 0
    for index in range(len(topic.partitions)):
        await slices.give_way()
        offline += broker.leader_of(topic, index) < 0
    return offline


async def _groups(
    broker: Broker, slices: Slices, leaders: OtherLeaders
) -> tuple[list[GroupSample], int]:
    """Every group, and how many offsets were read; none before a client has asked for a group."""
    if "groups" not in vars(broker):
        return [], 0
    groups: list[GroupSample] = []
    elsewhere: dict[str, list[tuple[Key, int | None]]] = {}
    offsets_left = MAX_OFFSETS
    for home in broker.groups.loaded():
        for group_id in home.coordinator.group_ids():
            await slices.give_way()
            state = home.coordinator.state_of(group_id)
            if state is None:
                continue
            group = home.coordinator.groups.get(group_id)
            lag: int | None = None
            topics: tuple[str, ...] = ()
            uncounted = 0
            if len(groups) < MAX_GROUPS and offsets_left > 0 and isinstance(group, ShareGroup):
                lag, count, uncounted = await _share_lag(broker, group, slices, leaders)
                offsets_left -= count
                topics = tuple(sorted(one.name for one in group.states.initialized.values()))
            elif len(groups) < MAX_GROUPS and offsets_left > 0:
                lag, count, others = await _lag(broker, home, group_id, slices)
                offsets_left -= count
                if others:
                    elsewhere[group_id] = others
                topics = tuple(sorted(home.coordinator.offsets.topics_of(group_id)))
            groups.append(
                GroupSample(
                    group_id,
                    (group.kind if group else GroupType.CLASSIC).value,
                    state,
                    len(getattr(group, "members", ())),
                    lag,
                    topics[:MAX_TOPICS_OF_GROUP],
                    uncounted,
                )
            )
    if elsewhere:
        groups = await _with_others(broker, groups, elsewhere, leaders)
    return groups, MAX_OFFSETS - offsets_left


async def _with_others(
    broker: Broker,
    groups: list[GroupSample],
    elsewhere: dict[str, list[tuple[Key, int | None]]],
    leaders: OtherLeaders,
) -> list[GroupSample]:
    """The groups, with the lag of the partitions that other brokers lead."""
    slices = Slices()
    wanted = dict.fromkeys(key for others in elsewhere.values() for key, _ in others)
    ends = await leaders.ends(broker, wanted)
    found = []
    for group in groups:
        lag, uncounted = group.lag, group.uncounted
        for key, committed in elsewhere.get(group.group_id, ()):
            await slices.give_way()
            known = ends.get(key)
            if known is None or lag is None:
                uncounted += 1
            else:
                lag += max(0, known.end - (known.log_start if committed is None else committed))
        found.append(group._replace(lag=lag, uncounted=uncounted))
    return found


async def _share_lag(
    broker: Broker, group: ShareGroup, slices: Slices, leaders: OtherLeaders
) -> tuple[int | None, int, int]:
    """What a share group has left, in how many partitions, and how many are missing in that sum."""
    places: dict[SharePartitionKey, Key] = {}
    for topic_id, state in group.states.initialized.items():
        for index in state.partitions:
            await slices.give_way()
            places[SharePartitionKey(group.group_id, topic_id, index)] = state.name, index
    found = await leaders.share_lags(broker, group.group_id, places)
    known = [one.lag for one in found.values() if one.lag is not None]
    lag = sum(known) if known or not places else None
    return lag, len(places), len(places) - len(known)


async def _lag(
    broker: Broker, home: LoadedCoordinator, group_id: str, slices: Slices
) -> tuple[int, int, list[tuple[Key, int | None]]]:
    """The sum of a group's lags, and the number of offsets and assignments it was made from.

    The third are the partitions that this broker doesn't serve, with their committed offsets.
    """
    lag = count = 0
    others: list[tuple[Key, int | None]] = []
    offsets = home.coordinator.offsets.of(group_id)
    for topic, index, committed in offsets.items():
        await slices.give_way()
        count += 1
        partition = broker.partition_if_served(topic, index)
        if partition is not None:
            lag += max(0, partition.high_watermark - committed.offset)
        else:
            others.append(((topic, index), committed.offset))
    for topic, index in assigned_partitions(home.coordinator.groups.get(group_id), broker.image):
        await slices.give_way()
        count += 1
        if offsets.get(topic, index) is not None:
            continue
        partition = broker.partition_if_served(topic, index)
        if partition is not None:
            lag += partition.high_watermark - partition.log.log_start_offset
        else:
            others.append(((topic, index), None))
    return lag, count, others
