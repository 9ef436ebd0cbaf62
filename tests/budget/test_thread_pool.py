"""Work in threads waits where the system has no thread for it."""

# Private attributes: trio gives no other way to have no thread at hand, so that one has to start.
import gc
import threading

import pytest

from kwire.budget.thread_pool import ThreadPool
from kwire.errors import ErrorCode, KafkaError


class Refusing(threading.Thread):
    """A thread that the system refuses to start, ``left`` times."""

    left = 3

    def start(self):
        """Refuse as Python does."""
        if Refusing.left:
            Refusing.left -= 1
            raise RuntimeError("can't start new thread")
        super().start()


class NeverIdle(dict):
    """Trio's idle threads, of which none is given: one of an earlier test may come back late."""

    def popitem(self):
        raise KeyError


async def test_work_waits_for_a_thread_that_the_system_refuses(monkeypatch, autojump_clock):
    """Neither the broker nor a connection ends, and the work is done once."""
    monkeypatch.setattr("trio._core._thread_cache.Thread", Refusing, raising=False)
    monkeypatch.setattr("threading.Thread", Refusing)
    monkeypatch.setattr("trio._core._thread_cache.THREAD_CACHE._idle_workers", NeverIdle())
    Refusing.left = 3
    done = []
    assert await ThreadPool(1).run(lambda: done.append(1) or "result") == "result"
    assert done == [1]
    assert not Refusing.left


async def test_an_error_of_the_work_is_no_refusal():
    """What the work itself raises isn't tried again."""
    tries = []

    def work():
        tries.append(1)
        raise RuntimeError("can't start new thread")

    with pytest.raises(RuntimeError):
        await ThreadPool(1).run(work)
    assert tries == [1]


async def test_an_error_of_the_work_leaves_no_circles():
    """A client's wrong expression would keep its request until the next full collection."""
    pool = ThreadPool(1)

    def inner():
        raise ValueError

    def work():
        try:
            inner()
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "wrong") from error

    async def fail():
        with pytest.raises(KafkaError):
            await pool.run(work)

    await fail()
    gc.collect()
    gc.disable()
    try:
        await fail()
        found = gc.collect()
    finally:
        gc.enable()
    assert not found
