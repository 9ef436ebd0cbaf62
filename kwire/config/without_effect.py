"""The settings of Kafka that have no effect in kwire yet, and the warnings about them.

Rules:

- ``WITHOUT_EFFECT`` names every broker setting that no code of kwire reads, and no other setting.
  A name that ends in a dot stands for all names that begin with it. A test compares the list with
  the sources.
- The broker warns at its start about such a setting, unless its value is the default.
- It also warns about numbers of replicas (``IN_A_CLUSTER``) if it isn't one of several.
- Those of the authorizer (``AUTHORIZER_SETTINGS``) have an effect where there is an authorizer.
- Settings of security have a warning of their own, because without their effect all clients are let
  in.
- A warning never shows a secret.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

from kwire.config.authorizer import AUTHORIZER_SETTINGS
from kwire.config.synonyms import SYNONYMS

PROTECTION = (
    "sasl.client.callback.handler.class",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.",
    "sasl.login.",
    "sasl.mechanism.controller.protocol",
    "sasl.oauthbearer.assertion.",
    "sasl.oauthbearer.client.credentials.",
    "sasl.oauthbearer.jwks.endpoint.retry.",
    "sasl.oauthbearer.jwt.",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.scope.claim.name",
    "security.providers",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
"""Settings of security."""

OUTSIDE_THE_TABLE = (
    "config.providers.",
    "listener.name.",
    "rlmm.config.",
    "rsm.config.",
)
"""Settings that Kafka reads although its table of settings doesn't have them."""

REASONS: Mapping[str, tuple[str, ...]] = {
    "A store has the metadata, not the log of a quorum of controllers": (
        "controller.performance.",
        "controller.quorum.",
        "controller.socket.timeout.ms",
        "early.start.listeners",
        "initial.broker.registration.timeout.ms",
        "internal.metadata.",
        "metadata.log.max.",
        "metadata.log.segment.",
        "metadata.max.",
        "server.max.startup.time.ms",
    ),
    "kwire has no pools of threads: one event loop serves all clients": (
        "background.threads",
        "group.coordinator.background.threads",
        "group.coordinator.threads",
        "num.io.threads",
        "num.network.threads",
        "num.replica.alter.log.dirs.threads",
        "queued.max.",
    ),
    "kwire has a way or a value of its own there": (
        "alter.log.dirs.replication.quota.",
        "controlled.shutdown.enable",
        "group.consumer.assignor.offload.enable",
        "delete.records.purgatory.purge.interval.requests",
        "fetch.purgatory.purge.interval.requests",
        "group.consumer.regex.refresh.interval.ms",
        "group.coordinator.append.linger.ms",
        "group.coordinator.cached.buffer.max.bytes",
        "log.initial.task.delay.ms",
        "offsets.load.buffer.size",
        "producer.id.expiration.check.interval.ms",
        "producer.purgatory.purge.interval.requests",
        "replica.socket.receive.buffer.bytes",
        "replication.quota.window.",
        "socket.connection.setup.timeout.",
        "transaction.state.log.load.buffer.size",
    ),
    "Their metrics are those of a Java process; kwire's are at /metrics": (
        "kafka.metrics.",
        "metric.reporters",
        "metrics.",
    ),
    "The file system finds room for a segment as it grows": ("log.preallocate",),
    "kwire has no tiered storage": (
        "follower.fetch.last.tiered.offset.enable",
        "log.local.retention.",
        "log.remote.copy.",
        "remote.",
    ),
    "Its streams groups have no warm-up tasks, as those of Kafka 4.4, and no plugin in Java": (
        "group.streams.assignor.offload.enable",
        "group.streams.max.warmup.replicas",
        "group.streams.num.warmup.replicas",
        "group.streams.topology.description.plugin.class",
    ),
    "Share groups take no classes in Java": (
        "group.share.assignor.offload.enable",
        "group.share.dlq.",
        "group.share.persister.class.name",
        "share.coordinator.append.linger.ms",
        "share.coordinator.cached.buffer.max.bytes",
        "share.coordinator.load.buffer.size",
        "share.coordinator.threads",
        "share.fetch.purgatory.purge.interval.requests",
    ),
    "A broker that can't tell the store of its failed directory is fenced, and others lead": (
        "log.dir.failure.timeout.ms",
    ),
    "kwire has no versions that are unfinished": (
        "transaction.two.phase.commit.enable",
        "unstable.",
    ),
    "They are for Java's libraries and classes, or for the login of a client": PROTECTION,
}
"""Why a setting of the table has no effect, with the settings of which that is true."""

WITHOUT_EFFECT = (*OUTSIDE_THE_TABLE, *chain.from_iterable(REASONS.values()))
"""Every broker setting without an effect in kwire."""

IN_A_CLUSTER = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
)
"""Settings that have an effect only if ``kwire.metadata.store`` is set."""

TOPICS_WITHOUT_EFFECT = (
    "internal.segment.bytes",
    "remote.",
)
"""Topic settings without an effect, beside those whose synonyms have no effect."""


def has_effect(scope: str, name: str) -> bool:
    """Whether any code of kwire reads this setting of this scope."""
    match scope:
        case "broker":
            return not is_among(name, WITHOUT_EFFECT)
        case "topic":
            behind = SYNONYMS.get(name, ())
            return not is_among(name, TOPICS_WITHOUT_EFFECT) and not any(
                is_among(synonym.name, WITHOUT_EFFECT) for synonym in behind
            )
        case "group":
            return not any(is_among(one, WITHOUT_EFFECT) for one in (name, f"group.{name}"))
        case "client-metrics" | "dynamic-broker":
            return True
    return False


def is_among(name: str, names: tuple[str, ...]) -> bool:
    """Whether ``names`` has this name, or a beginning of it that ends in a dot."""
    return any(name.startswith(one) if one.endswith(".") else name == one for one in names)


PREFIX = "listener.name."
"""The beginning of the names of one listener's settings (``listener_settings``)."""

_OF_SECURED_LISTENERS = (
    "connection.failed.authentication.delay.ms",
    "connections.max.reauth.ms",
    "principal.builder.class",
    "sasl.",
    "ssl.",
)
"""Settings that protect nothing while every listener is PLAINTEXT."""

_OF_ANY_LISTENER = (".max.connection.creation.rate", ".max.connections")
"""The ends of the names of one listener's settings that have an effect on every listener."""


_UNPROTECTED = (
    "these settings of Kafka have no effect in kwire yet: {}; clients connect without a login or "
    "encryption, and may do everything"
)
_NO_LISTENER = (
    "no listener is protected by these settings: {}; clients of PLAINTEXT listeners connect "
    "without a login or encryption"
)
_NO_EFFECT = "these settings of Kafka have no effect in kwire yet: {}"
_NO_AUTHORIZER = (
    "these settings belong to the authorizer, and authorizer.class.name names none: {}; "
    "clients may do everything"
)
_ONE_REPLICA = (
    "topics that kwire creates by itself have one replica without kwire.metadata.store, whatever "
    "these settings say: {}"
)
_REASONS = (_UNPROTECTED, _NO_LISTENER, _NO_AUTHORIZER, _NO_EFFECT, _ONE_REPLICA)


def warnings(
    asked: Mapping[str, str], secured_listeners: Sequence[str] = (), *, is_alone: bool = False
) -> list[str]:
    """The warnings about settings without an effect: one for each reason.

    ``asked`` maps the name of each setting to the text that a warning shows for it.
    ``secured_listeners`` are the listeners that aren't PLAINTEXT. ``is_alone`` says that the broker
    has no store for several machines.
    """
    by_reason: dict[str, list[str]] = {reason: [] for reason in _REASONS}
    for name, shown in asked.items():
        reason = _reason(name, secured_listeners, is_alone=is_alone)
        if reason is not None:
            by_reason[reason].append(shown)
    return [reason.format(", ".join(shown)) for reason, shown in by_reason.items() if shown]


def _reason(name: str, secured_listeners: Sequence[str], *, is_alone: bool) -> str | None:
    """Why a setting has no effect; None if it has one."""
    if name in AUTHORIZER_SETTINGS:
        return _NO_AUTHORIZER
    if is_among(name, PROTECTION):
        return _NO_EFFECT if secured_listeners else _UNPROTECTED
    if is_among(name, _OF_SECURED_LISTENERS) or name.startswith(PREFIX):
        is_in_use = _is_in_use(name, secured_listeners) or name.endswith(_OF_ANY_LISTENER)
        return None if is_in_use else _NO_LISTENER
    if is_among(name, WITHOUT_EFFECT) and not name.startswith("config.providers."):
        return _NO_EFFECT
    return _ONE_REPLICA if is_alone and name in IN_A_CLUSTER else None


def _is_in_use(name: str, secured_listeners: Sequence[str]) -> bool:
    """Whether a setting of secured listeners belongs to an existing listener."""
    if not name.startswith(PREFIX):
        return bool(secured_listeners)
    listener = name.removeprefix(PREFIX).partition(".")[0]
    return listener.upper() in secured_listeners
