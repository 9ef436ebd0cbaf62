"""What ``kwire mend-log`` leaves out of a segment: exactly the bytes that are no sound batch."""

import pytest

from kwire.log.log_repair import Damage, find_damage
from tests.support.log_state import log_files


@pytest.fixture
def segment(tools):
    """A closed segment with three batches of one record, and the size of each."""
    log = tools.open()
    for value in (b"first", b"the second", b"and the third"):
        tools.append(log, value)
    sizes = [batch.size_bytes for batch in tools.batches(log)]
    log.close(tools.now_ms)
    return log_files(log)[-1], sizes


def test_a_sound_segment_and_an_empty_one_have_no_damage(segment, tmp_path):
    """Nothing is left out of them."""
    assert find_damage(segment[0]) == []
    empty = tmp_path / f"{7:020d}.log"
    empty.touch()
    assert find_damage(empty) == []


def test_a_damaged_batch_is_left_out(segment):
    """The records from its offset to the next sound batch are lost."""
    path, sizes = segment
    content = bytearray(path.read_bytes())
    content[sizes[0] + sizes[1] - 3] ^= 1
    path.write_bytes(content)
    assert find_damage(path) == [Damage(path, sizes[0], sizes[1], 1, 2)]


def test_a_torn_end_is_left_out(segment):
    """What follows in the segment isn't known."""
    path, sizes = segment
    path.write_bytes(path.read_bytes()[:-5])
    [found] = find_damage(path)
    assert found == Damage(path, sizes[0] + sizes[1], sizes[2] - 5, 2, None)
    assert str(found).endswith("with the records from offset 2 on")
