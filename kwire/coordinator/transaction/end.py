"""Whether a producer may end its transaction as its EndTxn request asks.

Rules of the first protocol: the epoch must be the current one. A commit or an abort that is done
may be repeated. Without an open transaction there is nothing to end.

Rules of the newer protocol (``client_version`` 2, KIP-890): the end bumps the epoch. So a repeated
request carries the epoch before the current one (or the last epoch of the previous id). The current
epoch means a new transaction, which may be aborted even if no partition was ever added to it::

                      abort              commit
                      repeated current   repeated current
    Empty             fenced   abort     fenced   invalid
    CompleteAbort     done     abort     invalid  invalid
    CompleteCommit    invalid  abort     done     invalid

Source: endTransaction and endTransactionWithTV1 in TransactionCoordinator of Kafka.
"""

from typing import NamedTuple

from kwire.coordinator.transaction.state import (
    EPOCH_BUMP_SINCE,
    MAX_EPOCH,
    PREPARED,
    Transaction,
    TransactionState,
)
from kwire.errors import ErrorCode, KafkaError


class EndOfTransaction(NamedTuple):
    """The end that a producer asks for."""

    producer_id: int
    producer_epoch: int
    committed: bool
    client_version: int


def may_end(transaction: Transaction, end: EndOfTransaction) -> bool:
    """True to end the transaction, False if this end is done already.

    Raises KafkaError: CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
    INVALID_TXN_STATE.
    """
    if transaction.state in PREPARED:
        # The request may carry the id and epoch that follow, which can't be checked yet.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if end.client_version >= EPOCH_BUMP_SINCE:
        return _may_end_with_bump(transaction, end)
    if transaction.producer_id != end.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != end.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is TransactionState.ONGOING:
        return True
    _check_same_end(transaction, end)
    return False


def _may_end_with_bump(transaction: Transaction, end: EndOfTransaction) -> bool:
    after_overflow = (
        transaction.previous_producer_id == end.producer_id
        and end.producer_epoch == MAX_EPOCH - 1
        and transaction.producer_epoch == 0
    )
    if transaction.producer_id != end.producer_id and not after_overflow:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_ended = transaction.state not in (TransactionState.ONGOING, TransactionState.EMPTY)
    if is_ended and (after_overflow or transaction.producer_epoch == end.producer_epoch + 1):
        _check_same_end(transaction, end)
        return False
    if transaction.producer_epoch != end.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is not TransactionState.ONGOING and end.committed:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return True


def _check_same_end(transaction: Transaction, end: EndOfTransaction) -> None:
    """Raise KafkaError (INVALID_TXN_STATE) unless the transaction's end was of the same kind."""
    if transaction.state is TransactionState.EMPTY or transaction.is_committing != end.committed:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
