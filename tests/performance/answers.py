"""What is in an answer, whichever it is: its error codes, and whether it brings records."""

from kwire.protocol.messages.fetch import FetchResponse
from kwire.protocol.types import Message


def error_codes(message):
    """Every ``error_code`` in a message, however deep."""
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if field.name == "error_code":
            yield value
        elif isinstance(value, Message):
            yield from error_codes(value)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, Message):
                    yield from error_codes(item)


def brings_records(answer):
    """Of how many partitions an answer brings records."""
    if not isinstance(answer, FetchResponse):
        return 0
    return sum(
        bool(partition.records) for topic in answer.responses for partition in topic.partitions
    )
