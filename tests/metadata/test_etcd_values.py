"""The values of kwire's keys in etcd, as another version of kwire has to read them."""

import json
import zlib

import pytest

from kwire.metadata.changes import Change, TopicDeleted
from kwire.metadata.etcd.encoding import COMPRESSED_ABOVE_BYTES, decode_commit, encode_commit


@pytest.mark.parametrize("count", [1, COMPRESSED_ABOVE_BYTES // 32])
def test_a_large_commit_is_compressed_and_a_small_one_can_be_read_by_eye(count: int) -> None:
    """Both are the same text, and both are read."""
    changes: list[Change] = [TopicDeleted(number.to_bytes(16)) for number in range(count)]
    value, parts = encode_commit("1:a", changes)
    text = value if count == 1 else zlib.decompress(value)
    assert json.loads(text)["by"] == "1:a"
    assert not parts
    assert list(decode_commit(value).changes) == changes
