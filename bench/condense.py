"""Condensed profiles: the largest shares of the samples, in a few text tables."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

MOST_LINES = 15
LEAST_SHARE = 0.005
SYSTEM_CALL = re.compile(r"__(?:x64|arm64)_sys_(\w+)")
PREEMPTED, ENTRY = "exit_to_user_mode_loop", "do_syscall_64"
FRAME = re.compile(r"\s*[0-9a-f]+ (?P<symbol>.*) \((?P<library>.*)\)$")
IMPORT = re.compile(r"import time:\s+(?P<own_us>\d+) \|\s+\d+ \|\s+(?P<module>\S+)$", re.MULTILINE)
FRAMES_SHARE = 0.95
"""A function in more than this share of all samples is the frame that everything runs in."""


class Frame(NamedTuple):
    """A function in a stack, and the library or module that contains it."""

    symbol: str
    library: str

    @property
    def in_kernel(self) -> bool:
        """Whether the function is in the kernel or in a kernel module."""
        return self.library.startswith("[") and self.library != "[vdso]"


def table(title: str, counted: Counter[str], total: int) -> str:
    """A table of the largest shares of all samples."""
    lines = [
        f"{100 * count / total:6.1f} %  {what}"
        for what, count in counted.most_common(MOST_LINES)
        if count >= LEAST_SHARE * total
    ]
    return f"{title}\n" + "".join(f"{line}\n" for line in lines) if lines else ""


def stacks_of(script: str) -> Iterable[list[Frame]]:
    """The stacks of ``perf script``, the innermost function first."""
    for block in script.split("\n\n"):
        found = map(FRAME.match, block.splitlines())
        if frames := [Frame(one["symbol"], one["library"]) for one in found if one]:
            yield frames


def condensed_perf(script: str) -> str:
    """The kernel's share by system call and by function, and the user space's by library."""
    calls: Counter[str] = Counter()
    kernel: Counter[str] = Counter()
    libraries: Counter[str] = Counter()
    user: Counter[str] = Counter()
    total = 0
    for stack in stacks_of(script):
        total += 1
        leaf = stack[0]
        if leaf.in_kernel:
            calls[system_call_of(stack)] += 1
            kernel[leaf.symbol] += 1
        else:
            library = library_of(leaf)
            libraries[library] += 1
            user[f"{leaf.symbol} ({library})"] += 1
    if not total:
        return "perf saw the broker do nothing\n"
    share = sum(kernel.values()) / total
    tables = (
        table("The kernel, by system call", calls, total),
        table("The kernel, by function", kernel, total),
        table("User space, by program and library", libraries, total),
        table("User space, by function", user, total),
    )
    head = f"{total:,} samples of CPU time: kernel {share:.0%}, user space {1 - share:.0%}\n"
    return "\n".join((head, *filter(None, tables)))


def system_call_of(stack: list[Frame]) -> str:
    """The system call that the kernel executes in this stack, or its other activity."""
    symbols = {frame.symbol for frame in stack}
    for symbol in symbols:
        if found := SYSTEM_CALL.match(symbol):
            return found[1]
    if PREEMPTED in symbols:
        return "on the way back from one: another process, woken by it, runs first"
    return "entry and exit" if ENTRY in symbols else "none: interrupts, page faults"


def library_of(frame: Frame) -> str:
    """The name of a library without its directory."""
    return frame.library.rpartition("/")[2]


def condensed_py_spy(stacks: str) -> str:
    """Python's functions: their own time, and their time with everything that they call."""
    own: Counter[str] = Counter()
    within: Counter[str] = Counter()
    total = 0
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        functions = [without_line(frame) for frame in stack.split(";")]
        total += int(count)
        own[functions[-1]] += int(count)
        for function in set(functions):
            within[function] += int(count)
    if not total:
        return "py-spy saw the broker do nothing\n"
    for function in [one for one, count in within.items() if count > FRAMES_SHARE * total]:
        del within[function]
    tables = (
        table("Python's functions, by themselves", own, total),
        table("Python's functions, with what they call", within, total),
    )
    return "\n".join(filter(None, tables))


def without_line(frame: str) -> str:
    """A function's name without the line number."""
    return re.sub(r":\d+\)$", ")", frame)


def condensed_imports(log: str) -> str:
    """The time of imports, by package and by module."""
    packages: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for found in IMPORT.finditer(log):
        modules[found["module"]] += int(found["own_us"])
        packages[found["module"].partition(".")[0]] += int(found["own_us"])
    total = sum(modules.values())
    if not total:
        return "Python reported no imports\n"
    tables = (
        table("Imports, by package", packages, total),
        table("Imports, by module", modules, total),
    )
    head = f"{len(modules)} modules are imported, in {total / 1000:.0f} ms\n"
    return "\n".join((head, *tables))
