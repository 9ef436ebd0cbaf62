"""Settings without an effect: the list of them is that of the sources, and who sets one is told."""

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.config import BROKER, TOPIC, BrokerConfig, settings
from kwire.config.authorizer import CLASS_NAME, STANDARD_AUTHORIZER
from kwire.config.groups import LIMITED
from kwire.config.synonyms import SYNONYMS
from kwire.config.without_effect import OUTSIDE_THE_TABLE, WITHOUT_EFFECT, is_among, warnings

NAME = re.compile(r"[a-z][a-z0-9.]*[a-z0-9]")
PACKAGE = Path(__file__).parents[2] / "kwire"
SAYS_BUT_DOES_NOTHING = {
    "broker/configs.py",
    "config/synonyms.py",
    "config/values.py",
    "config/without_effect.py",
    "metadata/config_checks.py",
    "security/client_properties.py",
}
"""Modules that describe and check values, or read a client's; what they name goes no further."""


def _texts(path: Path) -> Iterator[str]:
    """The texts in a module that name what is read: the keys of a table are what is set."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    keys = {id(key) for node in nodes if isinstance(node, ast.Dict) for key in node.keys}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in keys:
            yield node.value


def _settings_read() -> set[str]:
    """The broker settings that code goes by."""
    modules = [
        path
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).as_posix() not in SAYS_BUT_DOES_NOTHING
        and path.relative_to(PACKAGE).parts[0] not in ("protocol", "record", "testing", "spark")
    ]
    names = settings(BROKER).keys()
    # A module that has none of the names in it reads none, and needn't be parsed.
    has_some = [path for path in modules if names & set(NAME.findall(path.read_text("utf-8")))]
    read = {text for path in has_some for text in _texts(path)}
    of_logs = _texts_of("log/log_config.py")
    for name in settings(TOPIC):  # log_config puts the names of compression levels together
        if name in of_logs or name.startswith("compression."):
            read.update(synonym.name for synonym in SYNONYMS.get(name, ()))
    read.update(f"group.{text}" for text in _texts_of("broker/group_surroundings.py"))
    for name in LIMITED:
        kind, _, rest = name.partition(".")
        read.update({f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"})
    return read & names


def _texts_of(module: str) -> set[str]:
    return set(_texts(PACKAGE / module))


def test_the_list_is_that_of_the_sources():
    """A setting is on it exactly if no code goes by it, and every line of it is of use."""
    known = settings(BROKER).keys()
    listed = {name for name in known if is_among(name, WITHOUT_EFFECT)}
    assert listed == known - _settings_read()
    for line in set(WITHOUT_EFFECT) - set(OUTSIDE_THE_TABLE):
        assert any(is_among(name, (line,)) for name in known), line
    assert not any(is_among(name, OUTSIDE_THE_TABLE) for name in known)


def _said(caplog: pytest.LogCaptureFixture, given: dict[str, str]) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        BrokerConfig.load(given)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("security.providers", "p", "security.providers=p"),
        ("sasl.kerberos.kinit.cmd", "/kinit", "sasl.kerberos.kinit.cmd=/kinit"),
    ],
)
def test_who_asks_for_protection_is_told_that_there_is_none(caplog, name, value, shown):
    """One line names the setting; a secret is not shown."""
    [said] = _said(caplog, {name: value})
    assert said == (
        f"these settings of Kafka have no effect in kwire yet: {shown}; clients connect without "
        "a login or encryption, and may do everything"
    )


def test_who_names_super_users_without_an_authorizer_is_told(caplog):
    """With an authorizer both settings act, and there is nothing to say."""
    given = {"super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"}
    [said] = _said(caplog, given)
    assert said == (
        "these settings belong to the authorizer, and authorizer.class.name names none: "
        "super.users, allow.everyone.if.no.acl.found; clients may do everything"
    )
    assert _said(caplog, given | {CLASS_NAME: STANDARD_AUTHORIZER}) == []


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def test_who_has_secured_listeners_is_not_told_that_all_are_open(protocol):
    """A setting of security without an effect is one as any other then."""
    assert warnings({"ssl.protocol": "ssl.protocol=TLSv1.3"}, [protocol]) == [
        "these settings of Kafka have no effect in kwire yet: ssl.protocol=TLSv1.3"
    ]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("ssl.client.auth", "required", "ssl.client.auth=required"),
        ("sasl.enabled.mechanisms", "PLAIN", "sasl.enabled.mechanisms=PLAIN"),
        ("ssl.keystore.password", "secret", "ssl.keystore.password=(hidden)"),
        ("listener.name.x.ssl.keystore.key", "secret", "listener.name.x.ssl.keystore.key"),
    ],
)
def test_who_protects_a_listener_that_there_is_not_is_told(caplog, name, value, shown):
    """Settings of secured listeners, while all listeners are PLAINTEXT."""
    [said] = _said(caplog, {name: value})
    assert said == (
        f"no listener is protected by these settings: {shown}; clients of PLAINTEXT listeners "
        "connect without a login or encryption"
    )


def test_settings_without_an_effect_share_a_line(caplog):
    """Each with its value."""
    given = {"remote.log.storage.system.enable": "true", "num.io.threads": "16"}
    [said] = _said(caplog, given)
    assert said == (
        "these settings of Kafka have no effect in kwire yet: "
        "remote.log.storage.system.enable=true, num.io.threads=16"
    )


def test_who_wants_replicas_is_told_that_there_is_one(caplog):
    """Without a store for several machines a topic gets one, whatever these settings say."""
    names = ("default", "offsets.topic", "transaction.state.log")
    given = {f"{name}.replication.factor": "3" for name in names}
    [said] = _said(caplog, given | {"transaction.state.log.min.isr": "2"})
    assert said == (
        "topics that kwire creates by itself have one replica without kwire.metadata.store, "
        "whatever these settings say: default.replication.factor=3, "
        "offsets.topic.replication.factor=3, transaction.state.log.replication.factor=3, "
        "transaction.state.log.min.isr=2"
    )
    store = {"kwire.metadata.store": "etcd://e"}
    assert _said(caplog, given | store) == []
    assert _said(caplog, {f"{name}.replication.factor": "1" for name in names}) == []


def test_what_is_in_force_anyway_is_not_worth_a_word(caplog):
    """Kafka's default, kwire's own, and settings that have an effect."""
    given = {
        "ssl.client.auth": "none",
        "num.io.threads": " 8",
        "share.coordinator.state.topic.min.isr": "1",
        "num.partitions": "3",
    }
    assert _said(caplog, given) == []
