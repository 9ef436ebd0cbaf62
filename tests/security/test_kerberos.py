"""Logins by Kerberos, with a context that stands for the library; compat_tests has a real KDC."""

import sys

import pytest

from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.security.kerberos import KerberosExchange, kerberos_exchanges
from kwire.security.kerberos_names import LocalNames
from kwire.security.principal import Principal
from kwire.security.sasl import Identity, LoginRefused

LINE = 'x.Krb5LoginModule required keyTab="{}" principal="{}";'


class GSSError(Exception):
    """What the library raises."""


class _Context:
    """Is complete after the token ``last``, and wraps by a mark in front."""

    def __init__(self, answers=(b"",), principal="alice@R"):
        self.complete = False
        self.initiator_name = principal
        self._answers = list(answers)

    def step(self, token):
        if token == b"wrong":
            raise GSSError("Major (1): bad, Minor (2): Wrong  principal\nin request")
        answer = self._answers.pop(0)
        self.complete = not self._answers
        return answer

    def wrap(self, message, encrypt):
        assert not encrypt
        return b"+" + message, False

    def unwrap(self, message):
        if message[:1] != b"+":
            raise GSSError("Minor (2): forged")
        return message[1:], False, 0


def _exchange(*arguments, **options):
    return KerberosExchange(_Context(*arguments, **options), GSSError, LocalNames(["DEFAULT"], "R"))


def _refused(exchange, *messages):
    *before, last = messages
    for message in before:
        exchange.step(message, 0)
    with pytest.raises(LoginRefused) as caught:
        exchange.step(last, 0)
    assert caught.value.told == "Authentication failed: the Kerberos ticket is not valid"
    assert exchange.identity is None
    return str(caught.value)


@pytest.mark.parametrize("asked", [b"", b"alice@R", b"alice", b"kafka@localhost", b"bob"])
def test_a_ticket_then_no_security_layer_then_a_name(asked):
    """With an answer of Kerberos in between, and without one; the ticket says who it is."""
    exchange = _exchange((b"more", b"last"))
    assert exchange.step(b"ticket", 0) == b"more"
    assert exchange.step(b"token", 0) == b"last"
    assert exchange.step(b"", 0) == b"+\x01\0\0\0"
    assert exchange.identity is None
    assert exchange.step(b"+\x01\0\0\0" + asked, 0) == b""
    assert exchange.identity == Identity(Principal("User", "alice"))
    assert _exchange().step(b"ticket", 0) == b"+\x01\0\0\0"


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ((b"wrong",), "Kerberos refuses the ticket: 2): Wrong principal in request"),
        ((bytes(70_000),), "too long"),
        ((b"ticket", b"-\x01\0\0\0"), "forged"),
        ((b"ticket", b"+\x02\0\0\0"), "security layer"),
        ((b"ticket", b"+\x01\0"), "security layer"),
    ],
)
def test_what_is_refused(messages, problem):
    """The client is told one text, the log the reason."""
    assert problem in _refused(_exchange(), *messages)


def test_a_principal_without_a_local_name_is_refused():
    """One of another realm."""
    exchange = _exchange(principal="alice@OTHER")
    assert "no rule of sasl.kerberos" in _refused(exchange, b"ticket", b"+\x01\0\0\0")


def test_a_ticket_with_a_name_that_is_not_utf8_is_refused():
    """The library decodes it when it is read."""

    class Undecodable:
        def __str__(self):
            return b"al\xffice@R".decode()

    exchange = _exchange(principal=Undecodable())
    assert "isn't UTF-8" in _refused(exchange, b"ticket", b"+\x01\0\0\0")


def _error(given):
    given = {"listeners": "SASL_SSL://:0", "sasl.enabled.mechanisms": "GSSAPI", **given}
    given |= {"ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "x"}
    with pytest.raises(ConfigError) as caught:
        kerberos_exchanges(BrokerConfig.load(given).of_listener("SASL_SSL"))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_a_listener_needs(tmp_path, monkeypatch):
    """A keytab that only its owner reads, a principal of the service, rules, the library."""
    keytab = tmp_path / "kafka.keytab"
    keytab.write_bytes(b"\x05\x02")
    keytab.chmod(0o600)
    good = LINE.format(keytab, "kafka/h@R")
    assert "must name the broker's key" in _error({})
    assert "must name the broker's key" in _error({"sasl.jaas.config": "x.Y required a=b;"})
    assert "SERVICE/HOST@REALM" in _error({"sasl.jaas.config": LINE.format(keytab, "kafka@R")})
    given = {"sasl.jaas.config": good, "sasl.kerberos.service.name": "broker"}
    assert "must begin with broker/" in _error(given)
    rules = {"sasl.jaas.config": good, "sasl.kerberos.principal.to.local.rules": "DEFAULT,x"}
    assert "principal.to.local.rules: invalid rule: x" in _error(rules)
    monkeypatch.setitem(sys.modules, "gssapi", None)
    assert "pip install -e '.[gssapi]'" in _error({"sasl.jaas.config": good})
    keytab.chmod(0o644)
    assert f"chmod o-rwx {keytab}" in _error({"sasl.jaas.config": good})
