"""What stands for the records of a batch that can't be read."""

import pytest

from kwire.record.batch import RecordBatch
from kwire.spark.odd_records import Unreadable, readable
from tests.spark.damaged_batches import damaged


@pytest.mark.parametrize("claimed", [4, 5, 2_000_000])
def test_the_rest_of_a_batch_is_one_record(claimed: int) -> None:
    """However many offsets the batch claims: its reason says up to which one."""
    reasons: dict[int, str] = {}
    found = readable(RecordBatch(damaged(3, claimed, 100)), reasons)
    assert [(one.offset, one.value) for one in found] == [
        *((100, b"v"), (101, b"v"), (102, b"v"), (103, None))
    ]
    assert [type(one) is Unreadable for one in found] == [False, False, False, True]
    assert list(reasons) == [103]
    assert reasons[103].startswith(
        f"the rest of its batch, up to offset {99 + claimed}, can't be read: "
    )


def test_a_batch_with_a_wrong_checksum_is_one_record() -> None:
    """Nothing of it is trusted."""
    batch = damaged(3, 9, 100)
    batch[-1] ^= 1
    reasons: dict[int, str] = {}
    [one] = readable(RecordBatch(batch), reasons)
    assert (type(one), one.offset, one.key, one.value) == (Unreadable, 100, None, None)
    assert "up to offset 108, can't be read: " in reasons[100]
    assert "fails its checksum" in reasons[100]
