"""The errors that older clients get in place of errors that they don't know."""

from kwire.errors import ErrorCode, KafkaError

PRODUCER_FENCED_SINCE = 2
"""The first version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn that has PRODUCER_FENCED."""


def code_for_client(
    error: KafkaError, version: int, fenced_since: int = PRODUCER_FENCED_SINCE
) -> ErrorCode:
    """The code for a client: before KIP-588 a fenced producer gets INVALID_PRODUCER_EPOCH."""
    if error.code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
