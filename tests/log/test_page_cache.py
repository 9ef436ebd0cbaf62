"""Knowing what is in memory, and getting it there."""

import errno
import os

import pytest

from kwire.log import page_cache
from kwire.log.page_cache import PAGE_BYTES, ColdPages, is_cold, populate, pread_nowait
from tests.support.page_cache import PageCache

MB = 1024 * 1024


@pytest.fixture
def file(tmp_path):
    """An open file of 2 MB."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(2 * MB))
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def cache(monkeypatch):
    """Nothing is in memory."""
    return PageCache(monkeypatch)


def test_what_is_not_in_memory_is_cold_until_it_is_read(file, cache):
    """Whichever part of it is missing."""
    assert is_cold(file, 0, MB)
    populate(file, 0, MB)
    assert not is_cold(file, 0, MB)
    assert is_cold(file, 0, MB + 1)
    assert is_cold(file, MB - 1, 2)
    cache.forget()
    cache.keep(file, 0, MB // 2)
    after = MB // 2 + page_cache.PROBE_STEP_BYTES
    cache.keep(file, after, MB - after)
    assert is_cold(file, 0, MB)


def test_a_small_stretch_costs_one_probe(file, cache):
    """A page that is there is asked for once, two of them twice, a megabyte nine times."""
    cache.keep(file, 0, 2 * MB)
    for position, size_bytes, probes in ((0, 1, 1), (100, 3000, 1), (4000, 200, 2), (5, MB, 9)):
        cache.looks.clear()
        assert not is_cold(file, position, size_bytes)
        assert len(cache.looks) == probes


def test_a_read_that_does_not_wait(file, cache):
    """All of it or ColdPages for what is missing; the end of the file isn't missing."""
    with pytest.raises(ColdPages) as missing:
        pread_nowait(file, 100, 50)
    assert (missing.value.position, missing.value.size_bytes) == (50, 100)
    cache.keep(file, 0, PAGE_BYTES)
    with pytest.raises(ColdPages) as missing:
        pread_nowait(file, 100, PAGE_BYTES - 10)
    assert (missing.value.position, missing.value.size_bytes) == (PAGE_BYTES, 90)
    cache.keep(file, 0, 2 * MB)
    assert pread_nowait(file, 100, 50) == os.pread(file, 100, 50)
    assert pread_nowait(file, 100, 2 * MB - 10) == os.pread(file, 10, 2 * MB - 10)


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.EINVAL])
def test_where_nobody_knows_large_stretches_are_cold(file, cache, error):
    """And reads may wait."""
    cache.error = error
    assert not is_cold(file, 0, 1000)
    assert is_cold(file, 0, MB)
    assert pread_nowait(file, 100, 50) == os.pread(file, 100, 50)


def test_systems_without_it(file, monkeypatch):
    """The same without the flag."""
    monkeypatch.setattr(page_cache, "NOWAIT", 0)
    assert (is_cold(file, 0, 1000), is_cold(file, 0, MB)) == (False, True)
    assert pread_nowait(file, 100, 50) == os.pread(file, 100, 50)


def test_an_error_of_the_disk_is_one(file, cache):
    """It isn't mistaken for anything else."""
    cache.error = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        is_cold(file, 0, 10)
    with pytest.raises(OSError, match="Input/output"):
        pread_nowait(file, 10, 0)
