"""The static settings of one broker: the user's settings, kwire's profile, Kafka's defaults.

Rules:

- kwire's profile holds the defaults that differ from Kafka's because one broker is the normal
  case (docs/decisions/0001-embedded-profile.md). A user can set each of them back to Kafka's value.
  A broker whose metadata is in a store for several machines has Kafka's replication factors.
- An unknown setting is ignored with a warning. A setting without an effect is kept with a warning
  (``without_effect``). A bad value raises ConfigError.
- ``broker.id`` and ``node.id`` are two names of one setting. ``log.dir`` counts only where
  ``log.dirs`` isn't set.
- A setting that protects the broker and that kwire doesn't serve (another authorizer, a mechanism
  of a listener) raises ConfigError: without it the broker would be open to everybody.
- A listener's own settings (``listener.name.…``) count before those of the broker
  (``listener_settings``).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from kwire.config.addresses import Listener as Listener
from kwire.config.addresses import check_different, check_hosts
from kwire.config.addresses import is_every_interface as is_every_interface
from kwire.config.addresses import is_loopback as is_loopback
from kwire.config.addresses import is_port as is_port
from kwire.config.addresses import parse_listener as parse_listener
from kwire.config.authorizer import AUTHORIZER_SETTINGS, AuthorizerSettings, authorizer_settings
from kwire.config.cordoned import NAME as CORDONED
from kwire.config.cordoned import check_cordoned, cordoned_entries
from kwire.config.groups import check_groups
from kwire.config.policies import ALTER_CONFIG, CREATE_TOPIC, Policy, policy
from kwire.config.settings import BROKER, ConfigError, Value, settings

if TYPE_CHECKING:
    from kwire.config.listener_settings import ListenerSettings
    from kwire.config.metadata_store import EtcdAddress

log = logging.getLogger(__name__)

PROFILE: dict[str, str] = {
    "broker.id": "1",
    "controller.listener.names": "CONTROLLER",
    "group.initial.rebalance.delay.ms": "0",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dirs": "./kwire-data",
    "node.id": "1",
    "process.roles": "broker,controller",
    "socket.listen.backlog.size": "1024",
    "socket.receive.buffer.bytes": "-1",
}
"""kwire's own defaults."""

ONE_REPLICA: dict[str, str] = {
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}
"""More defaults, for brokers without a store for several machines."""

_LEAST: dict[str, int] = {
    "log.flush.interval.ms": 0,
    "log.retention.hours": 1,
    "log.retention.minutes": 1,
    "log.retention.ms": 1,
    "log.roll.jitter.ms": 0,
    "log.roll.ms": 1,
    "offsets.topic.segment.bytes": 1 << 20,
    "transaction.state.log.segment.bytes": 1 << 20,
}
# The least values that Kafka checks when it starts; for retention -1 is allowed too. The last two
# are the least value of a topic's segment.bytes. Kafka starts with less, but then can't create the
# topics, and no client finds a coordinator.

LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The values of ``replica.selector.class``; an empty value stands for LeaderSelector."""

_AMONG_BROKERS = {"inter.broker.listener.name", "security.inter.broker.protocol"}

_MOST_OFTEN_GIVEN = {"listener.security.protocol.map", "listeners", "log.dirs"}
# All these have an effect. A start with only these needn't load the table of those without.


class BrokerConfig(Mapping[str, Value]):
    """Every broker setting by name, parsed. ``given`` has the texts of the user's settings.

    ``prefixed`` has the texts of single listeners' settings, by their names with the prefix.
    """

    def __init__(
        self,
        given: Mapping[str, str],
        values: Mapping[str, Value],
        prefixed: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.given = given
        self.prefixed = prefixed
        self._values = values

    @classmethod
    def load(
        cls, properties: Mapping[str, str], places: Mapping[str, str] | None = None
    ) -> "BrokerConfig":
        """Settings from names and texts; ConfigError for a value that is not allowed.

        ``places`` has file and line of each setting from a properties file, for warnings.
        """
        if properties.get("config.providers"):
            from kwire.config.providers import resolved

            properties = resolved(properties)
        _warn_of_unknown(properties, places or {})  # before the errors: a slip may explain one
        known = settings(BROKER)
        wanted = known.keys() | AUTHORIZER_SETTINGS
        given = {name: text for name, text in properties.items() if name in wanted}
        _resolve_aliases(given)
        profile = profile_of(given)
        texts = {**profile, **given}
        values = {**_defaults()} | {
            name: setting.parse(texts[name]) for name, setting in known.items() if name in texts
        }
        config = cls(given, values, _prefixed(properties))
        config._check_together()
        _warn_without_effect(properties, config)
        return config

    def changed(self, given: Mapping[str, str]) -> "BrokerConfig":
        """The same settings with these values replaced, for another broker; this costs little."""
        known = settings(BROKER)
        values = {name: known[name].parse(text) for name, text in given.items()}
        return BrokerConfig({**self.given, **given}, {**self._values, **values}, self.prefixed)

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def integer(self, name: str) -> int:
        """A SHORT, INT or LONG setting that is never null."""
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def strings(self, name: str) -> list[str]:
        """A LIST setting; empty where it is null."""
        value = self._values[name]
        return value if isinstance(value, list) else []

    def listeners(self) -> list[Listener]:
        """The addresses to listen on, without the controller's: kwire opens no port for those."""
        controllers = {name.upper() for name in self.strings("controller.listener.names")}
        found = [parse_listener("listeners", text) for text in self.strings("listeners")]
        return [listener for listener in found if listener.name not in controllers]

    def data_directories(self) -> list[Path]:
        """The data directories, in the order of ``log.dirs``."""
        return [absolute(name) for name in self.strings("log.dirs")]

    def are_all_cordoned(self, entries: Sequence[str]) -> bool:
        """Whether all these entries of ``log.dirs`` are cordoned."""
        return cordoned_entries(self.strings(CORDONED), entries) == list(entries)

    def metadata_directory(self) -> Path:
        """The directory where a broker without another store keeps the metadata."""
        named = self["metadata.log.dir"]
        return absolute(str(named)) if named else self.data_directories()[0]

    def all_directories(self) -> list[Path]:
        """The directory of the metadata, and those of the logs."""
        return list(dict.fromkeys([self.metadata_directory(), *self.data_directories()]))

    def advertised_listeners(self) -> list[Listener]:
        """The addresses for clients; empty if unset: clients then get the one they connected to."""
        name = "advertised.listeners"
        return [parse_listener(name, text) for text in self.strings(name)]

    def http_address(self) -> tuple[str, int] | None:
        """Host and port for HTTP, None without HTTP; an empty host stands for every interface."""
        return self._address("kwire.http.listen")

    def registry_address(self) -> tuple[str, int] | None:
        """Host and port of the schema registry, None without one; the host as for HTTP."""
        return self._address("kwire.registry.listen")

    def _address(self, name: str) -> tuple[str, int] | None:
        text = self[name]
        if not text:
            return None
        host, colon, port = str(text).rpartition(":")
        is_bare_ipv6 = ":" in host and not host.startswith("[")
        if not colon or is_bare_ipv6 or "/" in host or not is_port(port):
            problem = "must be HOST:PORT, for instance 127.0.0.1:9094, [::1]:9094 or *:9094"
            raise ConfigError(name, text, problem)
        return "" if host == "*" else host.strip("[]"), int(port)

    def authorizer(self) -> AuthorizerSettings | None:
        """The settings of the authorizer; None without one, which lets everybody do everything."""
        return authorizer_settings(str(self["authorizer.class.name"]), self.given)

    def create_topic_policy(self) -> Policy | None:
        """The function that may refuse new topics; ConfigError."""
        return policy(CREATE_TOPIC, self[CREATE_TOPIC])

    def alter_config_policy(self) -> Policy | None:
        """The function that may refuse changes of configs; ConfigError."""
        return policy(ALTER_CONFIG, self[ALTER_CONFIG])

    def selects_nearest_replica(self) -> bool:
        """Whether leaders send consumers to a replica in their rack (KIP-392); ConfigError."""
        name = self["replica.selector.class"] or LEADER_SELECTOR
        if name not in (LEADER_SELECTOR, RACK_AWARE_SELECTOR):
            problem = f"must be {RACK_AWARE_SELECTOR}, {LEADER_SELECTOR}, or empty"
            raise ConfigError("replica.selector.class", str(name), problem)
        return name == RACK_AWARE_SELECTOR

    def metadata_store(self) -> "EtcdAddress | None":
        """The store of a cluster's metadata; None for a broker that is alone."""
        text = self["kwire.metadata.store"]
        if not text:
            return None
        from kwire.config.metadata_store import parse_store

        return parse_store(str(text))

    def security_protocol(self, listener: str) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL for the listener of this name."""
        value = str(self["listener.security.protocol.map"])
        pairs = dict(
            item.strip().upper().rsplit(":", 1) for item in value.split(",") if ":" in item
        )
        return pairs.get(listener, listener)

    def of_listener(
        self, name: str, dynamic: Mapping[str, str] = MappingProxyType({})
    ) -> "ListenerSettings":
        """The settings of one listener; ``dynamic`` are a broker's dynamic configs."""
        from kwire.config.listener_settings import ListenerSettings, prefixed_settings

        prefixed = {**self.prefixed, **prefixed_settings(dynamic)} if dynamic else self.prefixed
        return ListenerSettings(name, self.security_protocol(name), self, prefixed)

    @property
    def inter_broker_name(self) -> str | None:
        """The name of the listener among brokers; None for the first one."""
        if not self.given.keys() & _AMONG_BROKERS:
            return None
        from kwire.config.listener_settings import inter_broker_listener

        return inter_broker_listener(self).name

    @property
    def secured_listeners(self) -> list[str]:
        """The names of the listeners that are not PLAINTEXT."""
        names = [listener.name for listener in self.listeners()]
        return [name for name in names if self.security_protocol(name) != "PLAINTEXT"]

    @property
    def has_secrets(self) -> bool:
        """Whether the process holds keys or passwords: those of listeners, or any that are set."""
        known = settings(BROKER)
        given = (name for name, text in self.given.items() if text and name in known)
        return bool(self.secured_listeners) or any(known[name].is_sensitive for name in given)

    def _check_ports(self) -> None:
        """Check the settings of the ports that speak HTTP."""
        if self.http_address() is None and self["kwire.http.admin.enable"]:
            name = "kwire.http.admin.enable"
            raise ConfigError(name, "true", "needs --http HOST:PORT (kwire.http.listen)")
        if self["kwire.http.schema.registry.url"]:
            from kwire.config.registry_url import check_registry

            check_registry(str(self["kwire.http.schema.registry.url"]))
        if self.registry_address():
            others = ["kwire.metadata.store"] if self["kwire.metadata.store"] else []
            others += ["kwire.workers"] if self["kwire.workers"] != 1 else []
            if others:
                problem = f"can't be together with {others[0]} yet"
                raise ConfigError("kwire.registry.listen", self["kwire.registry.listen"], problem)

    def _check_together(self) -> None:
        """Check the settings that have to agree with others, and those that kwire can't serve."""
        if "broker" not in self.strings("process.roles"):
            raise ConfigError("process.roles", self.given["process.roles"], "must contain broker")
        if not self.strings("log.dirs"):
            raise ConfigError("log.dirs", "", "must name a directory")
        check_cordoned(self.strings(CORDONED), self.strings("log.dirs"))
        self.authorizer()
        self.create_topic_policy()
        self.alter_config_policy()
        callback = self["client.quota.callback.class"]
        if callback:
            problem = "must be empty: kwire has Kafka's own quotas and runs no Java classes"
            raise ConfigError("client.quota.callback.class", callback, problem)
        for name, least in _LEAST.items():
            value = self[name]
            unlimited = value == -1 and name.startswith("log.retention.")
            if isinstance(value, int) and value < least and not unlimited:
                raise ConfigError(name, value, f"must be at least {least}")
        check_groups(self)
        self._check_ports()
        self._check_listeners()
        if self["kwire.metadata.store"] and self.metadata_store() is not None:
            from kwire.config.metadata_store import check_cluster

            check_cluster(self, self.listeners(), self.advertised_listeners())
            if self["kwire.workers"] != 1:
                problem = "must be 1 with kwire.metadata.store: start each broker by itself"
                raise ConfigError("kwire.workers", self["kwire.workers"], problem)

    def _check_listeners(self) -> None:
        listeners = self.listeners()
        if not listeners:
            raise ConfigError("listeners", self["listeners"], "must name a listener for clients")
        self._check_security()
        check_different("listeners", listeners)
        check_hosts("listeners", listeners)
        addresses = [f"{host}:{port}" for _, host, port in listeners if port]
        if len(set(addresses)) != len(addresses):
            raise ConfigError("listeners", ",".join(addresses), "must have different addresses")
        advertised = self.advertised_listeners()
        check_different("advertised.listeners", advertised)
        check_hosts("advertised.listeners", advertised)
        for listener in advertised:
            if is_every_interface(listener.host):
                raise ConfigError(
                    "advertised.listeners",
                    self.given["advertised.listeners"],
                    "must name hosts that clients can reach",
                )

    def _check_security(self) -> None:
        """Raise ConfigError for a listener whose security settings kwire can't serve."""
        secured = self.secured_listeners
        if not secured and not self.given.keys() & _AMONG_BROKERS:
            return
        from kwire.config.listener_settings import (
            PROTOCOLS,
            check_inter_broker,
            check_listener,
            inter_broker_listener,
        )

        for name in secured:
            if self.security_protocol(name) not in PROTOCOLS:
                problem = f"{name} must be in listener.security.protocol.map"
                raise ConfigError("listeners", self.given.get("listeners"), problem)
            check_listener(self.of_listener(name))
        check_inter_broker(self)
        inter_broker_listener(self)


@cache
def _defaults() -> Mapping[str, Value]:
    """Every broker setting's default, parsed once, though a process may have many brokers."""
    return {name: setting.parse(setting.default) for name, setting in settings(BROKER).items()}


def profile_of(given: Mapping[str, str]) -> Mapping[str, str]:
    """kwire's own defaults for a broker with the user's settings ``given``."""
    return PROFILE if given.get("kwire.metadata.store") else PROFILE | ONE_REPLICA


def absolute(name: str) -> Path:
    """The absolute path. It is resolved only if it contains ``..``, to keep it readable."""
    path = Path(name).absolute()
    return path.resolve() if ".." in path.parts else path


def _prefixed(properties: Mapping[str, str]) -> Mapping[str, str]:
    if not any(name.startswith("listener.name.") for name in properties):
        return MappingProxyType({})
    from kwire.config.listener_settings import prefixed_settings

    return prefixed_settings(properties)


def _resolve_aliases(given: dict[str, str]) -> None:
    """Give the settings that have two names the same value under both names."""
    if "node.id" in given or "broker.id" in given:
        ids = [given[name] for name in ("node.id", "broker.id") if name in given]
        if len({text.strip() for text in ids}) > 1:
            raise ConfigError("broker.id", given["broker.id"], f"must equal node.id ({ids[0]})")
        given["node.id"] = given["broker.id"] = ids[0]
    if "log.dir" in given:
        given.setdefault("log.dirs", given["log.dir"])


def _warn_of_unknown(properties: Mapping[str, str], places: Mapping[str, str]) -> None:
    """Log a warning about each unknown setting."""
    if properties.keys() <= _MOST_OFTEN_GIVEN:
        return
    from kwire.config.unknown import hint, unknown_names

    for name in unknown_names(properties):
        place, shown = places.get(name, ""), name or "without a name"
        log.warning("%ssetting %s is unknown and ignored%s", place, shown, hint(name))


def _warn_without_effect(properties: Mapping[str, str], config: BrokerConfig) -> None:
    """Log a warning about settings that have no effect."""
    if properties.keys() <= _MOST_OFTEN_GIVEN:
        return
    from kwire.config.without_effect import warnings

    known, profile = settings(BROKER), profile_of(config.given)
    asked: dict[str, str] = {}
    for name, text in properties.items():
        setting = known.get(name)
        if setting is None:
            if not (name in AUTHORIZER_SETTINGS and config.authorizer() is not None):
                asked[name] = name
        elif config[name] != setting.parse(profile.get(name, setting.default)):
            asked[name] = f"{name}={'(hidden)' if setting.is_sensitive else text.strip()}"
    is_alone = not config["kwire.metadata.store"]
    for warning in warnings(asked, config.secured_listeners, is_alone=is_alone):
        log.warning("%s", warning)
