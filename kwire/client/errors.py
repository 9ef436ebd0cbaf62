"""The failures between a client and a broker; a text names the address and the request.

A broker's own answers, Kafka's error codes, are ``kwire.errors.KafkaError``.
"""

from kwire.errors import ErrorCode, KafkaError


class ClientError(Exception):
    """The base class. ``address`` is ``host:port`` of the broker, empty for several brokers."""

    def __init__(self, address: str, text: str) -> None:
        super().__init__(f"{address}: {text}" if address else text)
        self.address = address
        self.text = text


class CannotConnect(ClientError):
    """No connection could be opened; the request was not sent."""


class NotLetIn(CannotConnect):
    """TLS or the login failed: one side doesn't trust the other, or doesn't know it."""


class SecurityFailure(OSError):
    """TLS or a login failed while a stream was opened."""


class ConnectionLost(ClientError):
    """The connection ended before the answer came; the request may have been carried out."""


class AnswerTimeout(ConnectionLost):
    """The broker didn't answer in time; the connection is closed, as Kafka's clients do."""


class BadAnswer(ConnectionLost):
    """The broker sent something that isn't an answer of Kafka's protocol."""


class OtherProtocol(BadAnswer):
    """The port speaks another protocol; the text says which, and what to do."""


class NotSupported(ClientError):
    """The broker has no version of the request that this client can send."""


class NoSuchBroker(ClientError):
    """The cluster has no broker with this node id, or the partition has no leader."""


def error_of(number: int, message: str | None, what: str) -> KafkaError | None:
    """The error of one thing in an answer, None for code 0; without a message about ``what``."""
    return KafkaError(ErrorCode(number), message or what) if number else None
