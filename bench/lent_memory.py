"""Memory that a virtual machine's host lends: fetched before a load, not during it.

A guest returns unused memory to its host. When it touches such a page again, the host gives the
page back slowly. Writing a gigabyte to the page cache may then take eight times as long as with
memory that was just in use. A measurement with large batches would depend on the memory that the
load before it has left. This module therefore touches as much memory as the load needs and frees it
at once, so that the guest keeps it for the next seconds. On a physical machine this takes a moment
and changes nothing.
"""

import mmap
from pathlib import Path

PAGE_BYTES = 4096


def available_bytes() -> int:
    """How many bytes can be used without swapping; 0 if the kernel doesn't say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    amounts = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return sum(amounts) * 1024


def touch(wanted_bytes: int) -> int:
    """Touch memory, at most half of what is available; returns the bytes that were touched."""
    pages = min(wanted_bytes, available_bytes() // 2) // PAGE_BYTES
    if not pages:
        return 0
    with mmap.mmap(-1, pages * PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)  # far fewer faults
        memory[::PAGE_BYTES] = bytes(pages)
    return pages * PAGE_BYTES
