"""Stock clients go on for longer than their logins last (KIP-368): they log in again by themselves.

With ``KWIRE_SECURED=kafka`` the same tests run on Apache Kafka.
"""

import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from compat_tests.java_tools import run_tool
from compat_tests.login_wire import Wire
from compat_tests.secured import (
    AUTHORIZER,
    PASSWORD,
    PLAIN_LINE,
    USER,
    SecuredBroker,
    allow,
    create_users,
    secured_broker,
)
from compat_tests.test_secured import RIGHTS
from kwire.protocol.messages.metadata import MetadataRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.testing.waiting import wait_until

SESSION_MS = 3000
RECORDS, INTERVAL_S = 80, 0.1
"""They take more than two sessions."""

WAYS = [("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-512"), ("SASL_SSL", "OAUTHBEARER")]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker where a login lasts three seconds."""
    settings = {
        **AUTHORIZER,
        "connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{PLAIN_LINE.removesuffix(";")} user_bob="bob-secret";'
        ),
    }
    with secured_broker(tmp_path_factory.mktemp("secured"), settings) as (broker, plain):
        create_users(plain)
        allow(plain, RIGHTS)
        yield broker


class Sender:
    """A producer of librdkafka, and what its application is told."""

    def __init__(self, secured: SecuredBroker, protocol: str, mechanism: str) -> None:
        self.topic = f"t-{uuid.uuid4().hex}"
        self.errors: list[KafkaError] = []
        self.acknowledged = 0
        config = {**secured.librdkafka(protocol, mechanism), "error_cb": self.errors.append}
        self._producer = Producer(config)

    def send(self, value: bytes) -> None:
        """Write a record, wait until it is there, and then for a while."""
        self._producer.produce(self.topic, value, on_delivery=self._note)
        assert self._producer.flush(30) == 0
        self._producer.poll(INTERVAL_S / len(WAYS))

    def _note(self, error: KafkaError | None, _: object) -> None:
        if error:
            self.errors.append(error)
        else:
            self.acknowledged += 1


def test_librdkafka(secured: SecuredBroker) -> None:
    """Every record is acknowledged, without an error that the application sees."""
    senders = {way: Sender(secured, *way) for way in WAYS}
    for number in range(RECORDS):
        for sender in senders.values():
            sender.send(b"%d" % number)
    for way, sender in senders.items():
        assert not sender.errors, way
        assert sender.acknowledged == RECORDS, way


def test_java(secured: SecuredBroker) -> None:
    """Kafka's own client sends at its pace, and says what was acknowledged."""
    protocol, mechanism = "SASL_SSL", "SCRAM-SHA-512"
    topic = f"t-{uuid.uuid4().hex}"
    said = run_tool(
        "org.apache.kafka.tools.VerifiableProducer",
        *("--bootstrap-server", secured.bootstrap[protocol], "--topic", topic),
        *("--max-messages", str(RECORDS), "--throughput", str(int(1 / INTERVAL_S))),
        *("--command-config", secured.java(protocol, mechanism)),
    )
    assert f'"acked":{RECORDS}' in said
    assert "producer_send_error" not in said


PLAIN_LOGIN = f"\0{USER}\0{PASSWORD}".encode()
LEAST_BETWEEN_LOGINS_S = 1.0
"""Both brokers refuse another login before, whoever it is by."""


def _logged_in(secured: SecuredBroker) -> Wire:
    wire = Wire(secured, "SASL_SSL")
    wire.begin("PLAIN")
    answer = wire.authenticate(PLAIN_LOGIN)
    assert answer is not None
    assert answer.error_code == 0
    assert 0 < answer.session_lifetime_ms <= SESSION_MS
    return wire


def _is_served(wire: Wire) -> bool:
    try:
        wire.send((MetadataRequest(topics=[]), 12))
    except OSError:
        return False
    return bool(wire.frame())


def test_who_does_not_log_in_again_is_served_no_more(secured: SecuredBroker) -> None:
    """Requests are answered until the session is over, and then the connection ends."""
    began_s = time.monotonic()
    with _logged_in(secured) as wire:
        wait_until(lambda: not _is_served(wire), what="the end of the session")
    assert SESSION_MS / 2 <= (time.monotonic() - began_s) * 1000 <= 3 * SESSION_MS


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_who_logs_in_again_is_the_same(secured: SecuredBroker, mechanism: str) -> None:
    """Another mechanism is refused, and so is another user, whose password is right."""
    began_s = time.monotonic()
    with _logged_in(secured) as wire:
        wait_until(
            lambda: _is_served(wire) and time.monotonic() - began_s > LEAST_BETWEEN_LOGINS_S * 1.2,
            what="the time for another login",
        )
        wire.send((SaslHandshakeRequest(mechanism=mechanism), 1))
        refused = not wire.frame() or wire.authenticate(b"\0bob\0bob-secret")
        assert refused is True or refused is None or refused.error_code
        assert not _is_served(wire)


def test_each_client_logged_in_again(secured: SecuredBroker) -> None:
    """kwire's log has a line for each login; Kafka's has none."""
    if secured.log is None:
        pytest.skip("Apache Kafka doesn't log logins")
    for mechanism in {mechanism for _, mechanism in WAYS}:
        assert secured.log().count(f"with {mechanism}") >= 3, mechanism
