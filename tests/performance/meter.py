"""Counts what a broker does in this process, and nothing of what its client does beside it.

A meter is an instrument of trio: it looks on while any task but the client's runs. What is counted:

- ``calls``: Python functions, a coroutine's once more each time it goes on; not those within trio.
- ``system call: …``: each by its name. Every call from Python that ends in the kernel is one of a
  built-in function of a handful of modules, which the interpreter's profiler sees; nothing has to
  be wrapped, so nothing new is missed. ``strace -c`` of a broker shows the same and its sleeps,
  which are trio's here, for its client is a task of the same loop (decision 5); ``modify`` is
  epoll_ctl, ``poll`` is epoll_wait.
- ``wake-ups``: how often trio goes on with a task.
- ``bytes allocated``: by how much memory grows with each instruction of Python's, even if it is
  given back at once; not within trio. Frames, which Python makes only for who looks on, don't
  count; what it takes from its own lists of free objects isn't seen. Pythons after 3.11 take memory
  themselves for who looks at instructions; there it is by call, and less is seen.
- ``bytes copied``: the same of pieces of COPY_BYTES or more. A payload that is copied shows here.
- ``peak bytes``: what is allocated at the same time, at most, above what was there before.
"""

import sys
import tracemalloc
from abc import abstractmethod
from collections import Counter
from functools import cache
from pathlib import Path

import trio

KERNEL_MODULES = {"posix", "select", "_socket", "socket", "fcntl", "mmap"}
NOT_THE_KERNEL = {"fileno", "fspath", "gettimeout", "cpu_count", "set_inheritable", "close_nowait"}
NOT_THE_KERNEL |= {"_path_normpath", "_path_splitroot_ex"}  # of Python 3.11 and 3.13, for pathlib
COPY_BYTES = 1024
SEES_INSTRUCTIONS = sys.version_info < (3, 12)
OUTSIDE = (str(Path(trio.__file__).parent), __file__)


@cache
def is_counted(code):
    """Whether a function is the broker's, or one that it calls."""
    return not code.co_filename.startswith(OUTSIDE) and "/outcome/" not in code.co_filename


def system_call(function):
    """The name of the system call behind a built-in function, None if there is none."""
    module = function.__module__ or type(function.__self__).__module__
    if module in KERNEL_MODULES and function.__name__ not in NOT_THE_KERNEL:
        return function.__name__
    return None


class Meter(trio.abc.Instrument):
    """Looks on while a task runs that isn't the one which made it."""

    hook = staticmethod(sys.setprofile)
    """What has ``on_event`` called."""

    def __init__(self):
        self.counts = Counter()
        self._client = trio.lowlevel.current_task()
        self._on_event = self.on_event  # made once: it would take memory each time

    def __enter__(self):
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(self, *error):
        trio.lowlevel.remove_instrument(self)

    def before_task_step(self, task):
        """Begin to count."""
        if task is not self._client:
            self.begin()
            self.hook(self._on_event)

    def after_task_step(self, _task):
        """Cease to count."""
        self.hook(None)

    def begin(self):
        """A step begins."""

    @abstractmethod
    def on_event(self, frame, event, argument):
        """The interpreter's call."""


class WorkMeter(Meter):
    """Calls, system calls and wake-ups."""

    def begin(self):
        self.counts["wake-ups"] += 1

    def on_event(self, frame, event, argument):
        if event == "call":
            self.counts["calls"] += is_counted(frame.f_code)
        elif event == "c_call":
            name = system_call(argument)
            if name:
                self.counts[f"system call: {name}"] += 1


class MemoryMeter(Meter):
    """Bytes allocated, copied and at the peak, while tracemalloc is on."""

    hook = staticmethod(sys.settrace if SEES_INSTRUCTIONS else sys.setprofile)

    def __init__(self):
        super().__init__()
        self.counts.update({"bytes allocated": 0, "bytes copied": 0, "peak bytes": 0})
        self._before = self._last = self._highest = tracemalloc.get_traced_memory()[0]

    def close(self):
        """No more is to be counted."""
        self.counts["peak bytes"] = self._highest - self._before

    def begin(self):
        self._last = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()

    def on_event(self, frame, event, argument):
        self._count(frame, event)
        if event == "call" and SEES_INSTRUCTIONS:
            frame.f_trace_lines = False
            frame.f_trace_opcodes = is_counted(frame.f_code)
        # Nothing of this look is left by now: the next peak is none of it.
        tracemalloc.reset_peak()
        return self._on_event

    def _count(self, frame, event):
        """What was done since the last event, by ``frame`` or, where that is called, its caller."""
        is_call = event == "call"
        by = frame.f_back if is_call else frame
        now, peak = tracemalloc.get_traced_memory()
        more = peak - self._last
        if more >= COPY_BYTES:
            self.counts["bytes copied"] += more
        if is_call:
            more -= sys.getsizeof(frame)
        if more > 0 and by is not None and is_counted(by.f_code):
            self.counts["bytes allocated"] += more
        self._highest = max(self._highest, peak)
        self._last = now
