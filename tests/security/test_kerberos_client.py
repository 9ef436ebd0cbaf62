"""Logins by Kerberos of commands and brokers: their messages, and what a JAAS line needs.

The library is a stand-in; ``compat_tests/test_kerberos.py`` has a real KDC.
"""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from kwire.client.errors import SecurityFailure
from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.security.kerberos_client import Initiator, kerberos_login

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


class GSSError(Exception):
    """As the library's."""


class _Context:
    """The client's side: ``answers`` are what its steps give."""

    def __init__(self, answers, offered=b"\x01\0\0\0"):
        self._answers = list(answers)
        self._offered = offered
        self.complete = False

    def step(self, token=None):
        if token == b"forged":
            raise GSSError("Major (1): x Minor (2): Wrong principal in request")
        made = self._answers.pop(0)
        self.complete = not self._answers
        return made

    def unwrap(self, message):
        return self._offered, False, 0

    def wrap(self, message, encrypt):
        return b"+" + message, encrypt


@pytest.fixture
def library(monkeypatch):
    """What was asked of the library; ``context`` is what it gives."""
    asked = SimpleNamespace(context=None, names=[], store="unasked")

    def name(text, kind):
        asked.names.append(text)
        return text

    def credentials(name, usage, store):
        asked.store = store
        return name

    def context(**_):
        return asked.context

    flags = SimpleNamespace(mutual_authentication=1, integrity=2)
    kinds = SimpleNamespace(hostbased_service=1, kerberos_principal=2)
    found = {"Name": name, "Credentials": credentials, "SecurityContext": context}
    found |= {"RequirementFlag": flags, "NameType": kinds}
    for module, content in (
        ("gssapi", found),
        ("gssapi.raw", {}),
        ("gssapi.raw.misc", {"GSSError": GSSError}),
    ):
        made = ModuleType(module)
        vars(made).update(content)
        monkeypatch.setitem(sys.modules, module, made)
    return asked


@pytest.mark.parametrize("last", [None, b"token"])
def test_a_ticket_a_proof_of_the_broker_and_no_security_layer(library, last):
    """With a last token of the client, and without one."""
    library.context = _Context([b"ticket", last])
    options = {"principal": "alice@R", "keyTab": "/keys"}
    messages = Initiator(options, "kafka").messages("example.org")
    assert next(messages) == b"ticket"
    assert messages.send(b"proof") == (last or b"")
    assert messages.send(b"layers") == b"+\x01\0\0\0"
    with pytest.raises(StopIteration):
        messages.send(b"")
    assert set(library.names) == {"alice@R", "kafka@example.org"}
    assert library.store == {"client_keytab": "FILE:/keys", "ccache": "MEMORY:kwire-alice@R"}


@pytest.mark.parametrize(
    ("options", "store"),
    [({}, None), ({"ticketCache": "/tickets"}, {"ccache": "FILE:/tickets"})],
)
def test_the_ticket_of_kinit(library, options, store):
    """Where Kerberos looks for it, or in another file."""
    library.context = _Context([b"ticket"])
    next(Initiator({"useTicketCache": "true", **options}, "kafka").messages("h"))
    assert library.store == store


def test_what_is_refused(library):
    """A broker that isn't the one it says, and one that wants a security layer."""
    library.context = _Context([b"ticket", None])
    messages = Initiator({}, "kafka").messages("h")
    next(messages)
    with pytest.raises(SecurityFailure, match="failed: 2\\): Wrong principal in request"):
        messages.send(b"forged")
    library.context = _Context([b"ticket"], offered=b"\x04\0\0\0")
    messages = Initiator({}, "kafka").messages("h")
    next(messages)
    with pytest.raises(SecurityFailure, match="asks for a security layer"):
        messages.send(b"layers")


def _error(line, **given):
    settings = {
        "listeners": "SASL_PLAINTEXT://:0",
        "sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": line,
        **given,
    }
    with pytest.raises(ConfigError) as caught:
        kerberos_login(BrokerConfig.load(settings).of_listener("SASL_PLAINTEXT"))
    return str(caught.value)


def test_what_a_line_needs(library, tmp_path, monkeypatch):
    """A key and whose it is, the service's name, and the package; no error shows the line."""
    key = tmp_path / "keytab"
    key.touch(mode=0o600)
    assert "must name a key and whose it is" in _error(f'{MODULE} keyTab="{key}";')
    assert "cannot read /no/such" in _error(f'{MODULE} keyTab="/no/such" principal="a/h@R";')
    own = f'{MODULE} keyTab="{key}" principal="alice@R";'
    assert "sasl.kerberos.service.name must name" in _error(own)
    monkeypatch.setitem(sys.modules, "gssapi", None)
    said = _error(own, **{"sasl.kerberos.service.name": "kafka"})
    assert "pip install -e '.[gssapi]'" in said
    assert "alice" not in said


def test_a_broker_logs_in_at_its_own_service(library, tmp_path):
    """Which the first part of its principal names."""
    key = tmp_path / "keytab"
    key.touch(mode=0o600)
    line = f'{MODULE} keyTab="{key}" principal="kafka/one@R";'
    settings = {
        "listeners": "SASL_PLAINTEXT://:0",
        "sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": line,
    }
    login = kerberos_login(BrokerConfig.load(settings).of_listener("SASL_PLAINTEXT"))
    library.context = _Context([b"ticket"])
    next(login.messages("two"))
    assert set(library.names) == {"kafka/one@R", "kafka@two"}
