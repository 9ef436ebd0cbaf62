"""Figures of the operating system about a broker's process (Linux: ``/proc``)."""

import os
from contextlib import suppress
from pathlib import Path

MB = 1_000_000


def _field_mb(file: Path, name: str) -> float:
    """A field of ``status`` or ``smaps_rollup``, in megabytes."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / MB
    return 0.0


def resident_mb(pid: int) -> float:
    """Resident memory of a process, in megabytes."""
    return _field_mb(Path(f"/proc/{pid}/status"), "VmRSS")


def proportional_mb(pid: int) -> float:
    """Resident memory in which shared pages count by their share; 0 if the kernel doesn't say."""
    try:
        return _field_mb(Path(f"/proc/{pid}/smaps_rollup"), "Pss")
    except OSError:
        return 0.0


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def tree_cpu_seconds(pid: int) -> float:
    """User and system time of a process, of its descendants, and of those of them that ended."""
    ticks: dict[int, tuple[int, int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            fields = file.read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks[int(file.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))

    def of(one: int) -> int:
        own = ticks.get(one, (0, 0))[1]
        return own + sum(of(child) for child, (parent, _) in ticks.items() if parent == one)

    return of(pid) / os.sysconf("SC_CLK_TCK")


def start_peak(pid: int) -> None:
    """Reset the peak of a process's resident memory, which ``peak_mb`` reads."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="utf-8")


def peak_mb(pid: int) -> float:
    """The most resident memory of a process since ``start_peak``, in megabytes."""
    return _field_mb(Path(f"/proc/{pid}/status"), "VmHWM")
