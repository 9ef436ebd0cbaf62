"""The index of aborted transactions: what is in its file, and what is written when."""

from pathlib import Path

from kwire.log.disk import Disk
from kwire.log.transaction_index import AbortedTransaction, TransactionIndex


class CountingDisk(Disk):
    """A disk that notes where it was written."""

    def __init__(self) -> None:
        self.positions: list[int] = []

    def pwrite_all(self, fd: int, data: bytes, position: int) -> None:
        """Write, and note where."""
        self.positions.append(position)
        super().pwrite_all(fd, data, position)


def test_each_entry_is_written_once(tmp_path: Path) -> None:
    """Behind the one before it; what is in the file already is not written again."""
    disk = CountingDisk()
    index = TransactionIndex(tmp_path, "0.txnindex", disk)
    entries = [AbortedTransaction(n, n, n + 1, n + 2) for n in range(3)]
    for entry in entries:
        index.append(entry)
        index.write_missing()
    assert disk.positions == [0, 34, 68]
    assert TransactionIndex(tmp_path, "0.txnindex", disk).entries() == entries
