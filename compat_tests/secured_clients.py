"""Stock clients that log in by themselves, so that tests which know of no login run with one.

``KWIRE_COMPAT_PROTOCOL=SASL_SSL`` (``make compat-secured``) has the broker under test listen with
TLS and SCRAM, and ask an authorizer. ``patch`` replaces the clients' classes before test modules
import them; each then has the settings of the user ``alice``, whom ``use`` makes: she is the super
user.
"""

import json
import os
import socket
import ssl
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka

from compat_tests import java_tools, raw_client
from compat_tests.secured import LOGIN, PASSWORD, USER, SecuredBroker
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages import message_classes
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.protocol.types import Request

PROTOCOL, MECHANISM = "SASL_SSL", "SCRAM-SHA-512"
IS_ON = os.environ.get("KWIRE_COMPAT_PROTOCOL") == PROTOCOL
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{USER};User:ANONYMOUS",
}
"""On the listener under test nobody is anonymous; Kafka's broker itself is on its own listener."""

_under_test: list[SecuredBroker] = []


def use(secured: SecuredBroker) -> str:
    """Make alice, and have all clients be hers; the address of the listener under test."""
    plain = confluent_kafka.admin.AdminClient(secured.librdkafka("SASL_PLAINTEXT", "PLAIN"))
    info = confluent_kafka.admin.ScramCredentialInfo(
        confluent_kafka.admin.ScramMechanism.SCRAM_SHA_512, 4096
    )
    wanted = confluent_kafka.admin.UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    plain.alter_user_scram_credentials([wanted])[USER].result(30)
    _under_test.append(secured)
    os.environ[LOGIN] = json.dumps(secured.librdkafka(PROTOCOL, MECHANISM))
    return secured.bootstrap[PROTOCOL]


def _broker_of(config: Mapping[str, Any], name: str) -> SecuredBroker | None:
    """The broker under test, if a client's settings name its listener."""
    for secured in _under_test:
        if secured.bootstrap[PROTOCOL] in str(config.get(name, "")):
            return secured
    return None


def patch() -> None:
    """Replace the clients' classes; called before test modules are imported."""
    for module, names in (
        (confluent_kafka, ("Producer", "Consumer")),
        (confluent_kafka.admin, ("AdminClient",)),
    ):
        for name in names:
            setattr(module, name, _of_librdkafka(getattr(module, name)))
    for name in ("KafkaProducer", "KafkaConsumer", "KafkaAdminClient"):
        setattr(kafka, name, _of_kafka_python(getattr(kafka, name)))
    for module, name in (
        *((aiokafka, name) for name in ("AIOKafkaProducer", "AIOKafkaConsumer")),
        (aiokafka.admin, "AIOKafkaAdminClient"),
    ):
        setattr(module, name, _of_aiokafka(getattr(module, name)))
    raw_client.open_socket = _open_socket
    java_tools.further_options = _tool_options


def _of_librdkafka(kind: Any) -> Any:
    def init(self: Any, config: Mapping[str, Any], *rest: Any, **named: Any) -> None:
        secured = _broker_of(config, "bootstrap.servers")
        login = {} if secured is None else secured.librdkafka(PROTOCOL, MECHANISM)
        original(self, {**login, **config}, *rest, **named)

    original = kind.__init__
    if kind is confluent_kafka.admin.AdminClient:  # which looks for itself in its module
        kind.__init__ = init
        return kind
    return type(kind.__name__, (kind,), {"__init__": init})


def _of_kafka_python(kind: Any) -> Any:
    def init(self: Any, *topics: str, **config: Any) -> None:
        secured = _broker_of(config, "bootstrap_servers")
        login = {} if secured is None else secured.kafka_python(PROTOCOL, MECHANISM)
        kind.__init__(self, *topics, **{**login, **config})

    return type(kind.__name__, (kind,), {"__init__": init})


def _of_aiokafka(kind: Any) -> Any:
    def init(self: Any, *topics: str, **config: Any) -> None:
        secured = _broker_of(config, "bootstrap_servers")
        login = {} if secured is None else secured.aiokafka(PROTOCOL, MECHANISM)
        kind.__init__(self, *topics, **{**login, **config})

    return type(kind.__name__, (kind,), {"__init__": init})


def _open_socket(address: tuple[str, int], own: tuple[str, int] | None) -> socket.socket:
    """A connection on which alice has logged in."""
    plain = socket.create_connection(address, raw_client.TIMEOUT_S, own)
    secured = _broker_of({"address": f"{address[0]}:{address[1]}"}, "address")
    if secured is None:
        return plain
    context = ssl.create_default_context(cafile=str(secured.ca_file))
    found = context.wrap_socket(plain, server_hostname=address[0])
    _ask(found, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    message = f"\0{USER}\0{PASSWORD}".encode()
    answer = _ask(found, SaslAuthenticateRequest(auth_bytes=message), 2)
    assert not answer.error_code, answer
    return found


def _ask(connection: socket.socket, request: Request, version: int) -> Any:
    connection.sendall(bytes(encode_request(request, version, 0, "raw")))
    with connection.makefile("rb", buffering=0) as file:
        frame = _whole(file, int.from_bytes(_whole(file, 4)))
    response = message_classes(request.API_KEY)[1]
    _, position = decode_response_header(frame, response, version)
    return decode(response, version, memoryview(frame)[position:])


def _whole(file: Any, size: int) -> bytes:
    found = b""
    while len(found) < size:
        some = file.read(size - len(found))
        assert some, "the broker has closed the connection"
        found += some
    return found


_files: dict[str, str] = {}


def _tool_options(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The options of a Java tool that logs in, unless the test gives such a file itself."""
    given = dict(pairwise(arguments))
    secured = _broker_of(given, "--bootstrap-server")
    if secured is None:
        return ()
    if "--command-config" in given:
        path = Path(given["--command-config"])
        login = Path(secured.java(PROTOCOL, MECHANISM)).read_text()
        if "security.protocol" not in path.read_text():
            path.write_text(f"{path.read_text()}\n{login}")
        return ()
    file = _files.get(secured.bootstrap[PROTOCOL])
    if file is None:
        file = _files[secured.bootstrap[PROTOCOL]] = secured.java(PROTOCOL, MECHANISM)
    return "--command-config", file
