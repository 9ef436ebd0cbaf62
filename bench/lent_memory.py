"""Memory that a virtual machine's host lends: asked for before a load, not during it.

A guest gives memory that it doesn't use back to its host, and the first touch of each page brings
it back, slowly: writing a gigabyte to the page cache may take eight times as long as where memory
has just been in use. What a broker of large batches gets done would then say how much the load
before it has left behind. Touching as much as the load will need, and giving it free at once,
leaves it with the guest for the seconds that count. Where memory is the machine's own this takes
a moment and changes nothing.
"""

import mmap
from pathlib import Path

PAGE_BYTES = 4096


def available_bytes() -> int:
    """How much can be used without swapping; 0 where the kernel won't tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    amounts = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return sum(amounts) * 1024


def touch(wanted_bytes: int) -> int:
    """Touch so much memory, at most half of what is there; how much it was, in bytes."""
    pages = min(wanted_bytes, available_bytes() // 2) // PAGE_BYTES
    if not pages:
        return 0
    with mmap.mmap(-1, pages * PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)  # far fewer faults
        memory[::PAGE_BYTES] = bytes(pages)
    return pages * PAGE_BYTES
