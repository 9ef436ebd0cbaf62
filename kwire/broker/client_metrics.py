"""Which metrics each client has to push (KIP-714), and the values that clients have pushed.

Rules:

- A client instance gets one answer: the metrics of all subscriptions that match it, and the
  shortest of their intervals. Another set of subscriptions gives it another subscription id.
- An instance is forgotten after three intervals, but not within a minute. There are at most
  ``MOST_INSTANCES``, the latest.
- An instance without values is forgotten earlier: when its connection has ended, or when the
  connection asks with another instance id. A client that comes back with its id is then a new
  instance with the same subscription.
- An instance keeps neither its connection nor the client's name, because they may be large.
- A client pushes a sum as the difference since its last push; the broker adds the differences up.
- Clients choose names and attributes, so all of them are made safe for Prometheus and cut. The
  client's id and instance id are labels that no attribute can replace. There are at most
  ``kwire.metrics.max.client.series`` series; further ones are counted and dropped.

Source: ClientMetricsManager of Kafka.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from math import isfinite
from typing import NamedTuple, Protocol
from weakref import ref
from zlib import crc32

from kwire.clock import Clock
from kwire.config.client_metrics import ALL_METRICS, PUSH_INTERVAL_MS, is_match, parse_match
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.image import ConfigResourceType, MetadataImage
from kwire.protocol.otlp import Point
from kwire.protocol.types import ZERO_UUID, uuid_to_str

MOST_INSTANCES = 16_384
LOOKS = 2
"""With each new instance, the broker checks the connections of so many other instances."""
LEAST_LIFE_MS = 60_000
MOST_CHARACTERS = 200
LAST_CODEC = 4
"""The codecs of records: none, gzip, snappy, lz4, zstd."""

RESERVED_IDS = (ZERO_UUID, bytes(15) + b"\1")
PREFIX = "kafka_client_"
_LONG_PREFIX = "org.apache.kafka."
_UNSAFE = re.compile(r"[^a-zA-Z0-9_]")


class Client(NamedTuple):
    """A client as its connection shows it.

    ``is_gone`` says whether the connection has ended. It is an object that lives as long as the
    connection.
    """

    client_id: str
    software_name: str
    software_version: str
    address: str
    port: int
    connection_id: int
    is_gone: Callable[[], bool]

    def attributes(self, instance_id: bytes) -> dict[str, str | None]:
        """The values that patterns of subscriptions are matched with."""
        return {
            "client_instance_id": uuid_to_str(instance_id),
            "client_id": self.client_id,
            "client_software_name": self.software_name or None,
            "client_software_version": self.software_version or None,
            "client_source_address": self.address,
            "client_source_port": str(self.port),
        }


class Subscription(NamedTuple):
    """The metrics that a client instance has to push, and the interval."""

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


class Instance:
    """A client instance that has asked for its subscription; times by the steady clock.

    ``connection_id`` names the connection on which it first asked.
    """

    __slots__ = (
        "_is_gone",
        "connection_id",
        "expires_ms",
        "got_ms",
        "image_subscriptions",
        "is_terminating",
        "pushed_ms",
        "subscription",
    )

    def __init__(self, client: Client, subscription: Subscription, basis: object) -> None:
        self.connection_id = client.connection_id
        self._is_gone = ref(client.is_gone)
        self.subscription = subscription
        self.image_subscriptions = basis
        self.is_terminating = False
        self.got_ms = self.pushed_ms = -(1 << 40)
        self.expires_ms = 0

    def is_gone(self) -> bool:
        """Whether the connection has ended. Then the client's ``is_gone`` may be deleted, too."""
        is_gone = self._is_gone()
        return is_gone is None or is_gone()

    def may_get(self, now_ms: int) -> bool:
        """Whether the interval is over since the last request."""
        if now_ms - max(self.got_ms, self.pushed_ms) < self.subscription.interval_ms:
            return False
        self.got_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Whether the interval is over since the last push, or the subscription was just got."""
        is_first = self.got_ms > self.pushed_ms
        if not is_first and now_ms - self.pushed_ms < self.subscription.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


class Series(NamedTuple):
    """A series in Prometheus' terms: its name, and its labels in order."""

    name: str
    labels: tuple[tuple[str, str], ...]


class TelemetryBroker(Protocol):
    """A broker as the metrics of clients see it."""

    image: MetadataImage
    clock: Clock

    def integer(self, name: str) -> int:
        """The effective value of a setting that is a whole number."""


class ClientMetrics:
    """The client instances of a broker, and their latest values."""

    def __init__(self, broker: TelemetryBroker) -> None:
        self.pushes = self.dropped = 0
        self._broker = broker
        self._instances: OrderedDict[bytes, Instance] = OrderedDict()
        self._met: OrderedDict[int, bytes] = OrderedDict()
        self._series: dict[bytes, dict[Series, float]] = {}
        self._count = 0
        self._image: MetadataImage | None = None
        self._subscriptions: dict[str, dict[str, str]] = {}

    def get(self, instance_id: bytes, client: Client) -> Subscription:
        """The subscription of a client; KafkaError (THROTTLING_QUOTA_EXCEEDED) if too soon."""
        instance = self._instance(instance_id, client)
        if not instance.may_get(self._broker.clock.steady_ms()):
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        return instance.subscription

    def check_push(
        self,
        instance_id: bytes,
        client: Client,
        subscription_id: int,
        codec: int,
        size_bytes: int,
        *,
        terminating: bool,
    ) -> None:
        """Note that a client pushes; KafkaError if it may not.

        INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID, TELEMETRY_TOO_LARGE,
        UNSUPPORTED_COMPRESSION_TYPE.
        """
        if instance_id in RESERVED_IDS:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        instance = self._instance(instance_id, client)
        was_terminating, instance.is_terminating = instance.is_terminating, terminating
        if was_terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not instance.may_push(self._broker.clock.steady_ms()) and not terminating:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if subscription_id != instance.subscription.subscription_id:
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if not 0 <= codec <= LAST_CODEC:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if size_bytes > self._broker.integer("telemetry.max.bytes"):
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)

    def count_push(self) -> None:
        """Count a push that was read."""
        self.pushes += 1

    def keep_points(self, instance_id: bytes, client: Client, points: Iterable[Point]) -> None:
        """Keep values of a push that ``check_push`` has allowed."""
        most = self._broker.integer("kwire.metrics.max.client.series")
        own = (
            ("client_id", _shortened_text(client.client_id)),
            ("client_instance_id", uuid_to_str(instance_id)),
        )
        held = self._series.setdefault(instance_id, {})
        for point in points:
            series = _series(point, own)
            if series not in held:
                if self._count >= most:
                    self.dropped += 1
                    continue
                self._count += 1
                held[series] = 0.0
            if not point.is_delta:
                held[series] = point.value
            elif isfinite(point.value):
                held[series] += point.value
        if instance_id not in self._instances:  # forgotten while a thread read its push
            self._forget_series(instance_id)

    def series(self) -> list[tuple[Series, float]]:
        """The latest value of every series."""
        self._expire()
        return [pair for held in self._series.values() for pair in held.items()]

    def __len__(self) -> int:
        """How many client instances are known."""
        self._expire()
        return len(self._instances)

    def _instance(self, instance_id: bytes, client: Client) -> Instance:
        """The instance, made anew if it is unknown or if the subscriptions have changed."""
        self._expire()
        subscriptions = self._current_subscriptions()
        instance = self._instances.get(instance_id)
        if (
            instance is None
            or instance.image_subscriptions is not subscriptions
            or (instance.connection_id != client.connection_id and instance.is_gone())
        ):
            subscription = self._subscription(instance_id, client)
            instance = Instance(client, subscription, subscriptions)
            self._record_instance(instance_id, client.connection_id)
        now_ms = self._broker.clock.steady_ms()
        life_ms = max(LEAST_LIFE_MS, 3 * instance.subscription.interval_ms)
        instance.expires_ms = now_ms + life_ms
        self._instances[instance_id] = instance
        self._instances.move_to_end(instance_id)
        assert len(self._instances) <= MOST_INSTANCES + 1
        if len(self._instances) > MOST_INSTANCES:
            self._forget_series(self._instances.popitem(last=False)[0])
        return instance

    def _record_instance(self, instance_id: bytes, connection_id: int) -> None:
        """Note a new instance of a connection, and forget instances whose connections have ended.

        A connection has one instance, as in ClientMetricsManager.clientConnectionIdMap.
        """
        earlier = self._met.pop(connection_id, instance_id)
        if earlier != instance_id:
            self._forget_without_values(earlier, connection_id)
        for _ in range(min(LOOKS, len(self._met))):
            other_id, looked_at = self._met.popitem(last=False)
            other = self._instances.get(looked_at)
            if other is None or other.connection_id != other_id:
                continue
            if other.is_gone():
                self._forget_without_values(looked_at, other_id)
            else:
                self._met[other_id] = looked_at
        self._met[connection_id] = instance_id

    def _forget_without_values(self, instance_id: bytes, connection_id: int) -> None:
        instance = self._instances.get(instance_id)
        is_of_connection = instance is not None and instance.connection_id == connection_id
        if is_of_connection and not self._series.get(instance_id):
            del self._instances[instance_id]
            self._forget_series(instance_id)

    @property
    def has_subscriptions(self) -> bool:
        """Whether any client is asked for metrics."""
        return bool(self._current_subscriptions())

    def _current_subscriptions(self) -> dict[str, dict[str, str]]:
        """The subscriptions by name; the same object as long as nothing has changed."""
        image = self._broker.image
        if image is not self._image:
            self._image = image
            kind = ConfigResourceType.CLIENT_METRICS
            found = {
                name: dict(configs)
                for (of_kind, name), configs in image.configs.items()
                if of_kind is kind
            }
            if found != self._subscriptions:
                self._subscriptions = found
        return self._subscriptions

    def _subscription(self, instance_id: bytes, client: Client) -> Subscription:
        attributes = client.attributes(instance_id)
        metrics: set[str] = set()
        interval_ms = PUSH_INTERVAL_MS
        for configs in self._current_subscriptions().values():
            if is_match(parse_match(_listed(configs.get("match", ""))), attributes):
                metrics.update(_listed(configs.get("metrics", "")))
                interval_ms = min(interval_ms, int(configs.get("interval.ms", PUSH_INTERVAL_MS)))
        asked = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
        number = crc32(f"{asked}{interval_ms}".encode() + instance_id)
        return Subscription(number - (1 << 31), asked, interval_ms)

    def _expire(self) -> None:
        now_ms = self._broker.clock.steady_ms()
        for instance_id in list(self._instances):
            if self._instances[instance_id].expires_ms > now_ms:
                return  # the instances after it were used later
            del self._instances[instance_id]
            self._forget_series(instance_id)

    def _forget_series(self, instance_id: bytes) -> None:
        self._count -= len(self._series.pop(instance_id, ()))


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _series(point: Point, own: tuple[tuple[str, str], ...]) -> Series:
    name = PREFIX + _UNSAFE.sub("_", _shortened_text(point.name.removeprefix(_LONG_PREFIX)))
    labels = {_label(key): _shortened_text(value) for key, value in point.attributes}
    return Series(
        name + "_total" if point.is_sum and not name.endswith("_total") else name,
        tuple(sorted((labels | dict(own)).items())),
    )


def _label(key: str) -> str:
    safe = _UNSAFE.sub("_", _shortened_text(key)).lstrip("_")
    return f"attribute_{safe}" if not safe or safe[0].isdigit() else safe


def _shortened_text(text: str) -> str:
    return text[:MOST_CHARACTERS]
