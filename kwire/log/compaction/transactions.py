"""Finds the batches of aborted transactions, while a clean goes through a log.

Rules (CleanedTransactionMetadata of Kafka):

- Only the log before the last stable offset is compacted, so every transaction there has ended. The
  transaction indexes name the aborted ones.
- Data of an aborted transaction can be removed at once. A marker can be removed when no batch of
  its transaction is left and the marker's delete horizon, which ``BatchFilter`` checks, has passed.
- An aborted transaction stays in the index if the clean meets one of its batches.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from kwire.log.transaction_index import AbortedTransaction
from kwire.record.batch import RecordBatch
from kwire.record.control import ControlType, control_type


class CleanedTransactions:
    """The transactions that are open at the current position of a clean."""

    def __init__(self) -> None:
        self.kept: list[AbortedTransaction] = []
        self._coming: list[tuple[int, AbortedTransaction]] = []
        self._aborted: dict[int, AbortedTransaction] = {}
        # Producers whose open transaction has data that the clean met, by the transaction's end.
        self._aborted_with_data: set[int] = set()
        self._committed_with_data: set[int] = set()

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions, none of which ended before the current position."""
        for transaction in aborted:
            heappush(self._coming, (transaction.first_offset, transaction))

    def take_kept(self) -> list[AbortedTransaction]:
        """The aborted transactions that have ended since the last call and stay in the index."""
        kept, self.kept = self.kept, []
        return kept

    def pass_batch(self, batch: RecordBatch) -> bool:
        """Go past a batch; returns True if readers of its transaction no longer need the batch.

        Readers don't need the data of an aborted transaction. They don't need a marker either if
        the clean met no data of its transaction.
        """
        while self._coming and self._coming[0][0] <= batch.last_offset:
            transaction = heappop(self._coming)[1]
            self._aborted.setdefault(transaction.producer_id, transaction)
        if batch.is_control:
            return self._pass_marker(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._aborted_with_data.add(batch.producer_id)
            return True
        self._committed_with_data.add(batch.producer_id)
        return False

    def _pass_marker(self, batch: RecordBatch) -> bool:
        if not batch.records_count:
            return True  # an earlier clean has removed the marker
        producer_id = batch.producer_id
        kind = control_type(batch)
        if kind == ControlType.ABORT:
            transaction = self._aborted.pop(producer_id, None)
            if transaction is None or producer_id not in self._aborted_with_data:
                return True
            self._aborted_with_data.discard(producer_id)
            self.kept.append(transaction)
            return False
        if kind == ControlType.COMMIT:
            has_data = producer_id in self._committed_with_data
            self._committed_with_data.discard(producer_id)
            return not has_data
        return False
