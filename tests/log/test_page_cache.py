"""Knowing what is in memory, and getting it there."""

import errno
import os

import pytest

from kwire.log import page_cache
from kwire.log.page_cache import ColdPages, is_cold, populate, pread_nowait

MB = 1024 * 1024


class Kernel:
    """A kernel in which nothing but ``cached`` is in memory; reads that may wait fill it."""

    def __init__(self, error: int = 0) -> None:
        self.cached: list[range] = []
        self.error = error
        self.probes = 0

    def preadv(self, fd: int, buffers: list[bytearray], position: int, flags: int = 0) -> int:
        """Read, or refuse."""
        size = len(buffers[0])
        if flags:
            self.probes += 1
            if self.error:
                raise OSError(self.error, os.strerror(self.error))
            if not any(position in some for some in self.cached):
                raise BlockingIOError
            end = next(some.stop for some in self.cached if position in some)
            size = min(size, end - position)
        else:
            self.cached.append(range(position, position + size))
        buffers[0][:size] = os.pread(fd, size, position)
        return size


@pytest.fixture
def file(tmp_path):
    """An open file of 2 MB."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(2 * MB))
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


@pytest.fixture
def use(monkeypatch):
    """Put a kernel in the place of the real one."""

    def put(kernel: Kernel) -> Kernel:
        monkeypatch.setattr(page_cache.os, "preadv", kernel.preadv)
        monkeypatch.setattr(page_cache, "NOWAIT", 8)
        return kernel

    return put


def test_what_is_not_in_memory_is_cold_until_it_is_read(file, use):
    """Whichever part of it is missing."""
    kernel = use(Kernel())
    assert is_cold(file, 0, MB)
    populate(file, 0, MB)
    assert not is_cold(file, 0, MB)
    assert is_cold(file, 0, MB + 1)
    assert is_cold(file, MB - 1, 2)
    kernel.cached = [range(MB // 2), range(MB // 2 + page_cache.PROBE_STEP_BYTES, MB)]
    assert is_cold(file, 0, MB)


def test_a_small_stretch_costs_one_probe(file, use):
    """A page that is there is asked for once, two of them twice, a megabyte nine times."""
    kernel = use(Kernel())
    kernel.cached = [range(2 * MB)]
    for position, size_bytes, probes in ((0, 1, 1), (100, 3000, 1), (4000, 200, 2), (5, MB, 9)):
        kernel.probes = 0
        assert not is_cold(file, position, size_bytes)
        assert kernel.probes == probes


def test_a_read_that_does_not_wait(file, use):
    """All of it or ColdPages for what is missing; the end of the file isn't missing."""
    kernel = use(Kernel())
    with pytest.raises(ColdPages) as missing:
        pread_nowait(file, 100, 50)
    assert (missing.value.position, missing.value.size_bytes) == (50, 100)
    kernel.cached = [range(60)]
    with pytest.raises(ColdPages) as missing:
        pread_nowait(file, 100, 50)
    assert (missing.value.position, missing.value.size_bytes) == (60, 90)
    kernel.cached = [range(2 * MB)]
    assert pread_nowait(file, 100, 50) == os.pread(file, 100, 50)
    assert pread_nowait(file, 100, 2 * MB - 10) == os.pread(file, 10, 2 * MB - 10)


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.EINVAL])
def test_where_nobody_knows_large_stretches_are_cold(file, use, error):
    """And reads may wait."""
    use(Kernel(error))
    assert not is_cold(file, 0, 1000)
    assert is_cold(file, 0, MB)
    assert pread_nowait(file, 100, 50) == os.pread(file, 100, 50)


def test_systems_without_it(file, monkeypatch):
    """The same without the flag."""
    monkeypatch.setattr(page_cache, "NOWAIT", 0)
    assert (is_cold(file, 0, 1000), is_cold(file, 0, MB)) == (False, True)
    assert pread_nowait(file, 100, 50) == os.pread(file, 100, 50)


def test_an_error_of_the_disk_is_one(file, use):
    """It isn't mistaken for anything else."""
    use(Kernel(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        is_cold(file, 0, 10)
    with pytest.raises(OSError, match="Input/output"):
        pread_nowait(file, 10, 0)
