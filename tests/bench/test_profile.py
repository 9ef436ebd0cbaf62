"""Profiles made short, and the names of their files."""

from bench.condense import condensed_imports, condensed_perf, condensed_py_spy
from bench.profile import one_of_each_load, slug
from bench.rows import ALL_ROWS
from bench.session import selected

PERF = """
\tffffffff8100 tcp_ack ([kernel.kallsyms])
\tffffffff8101 __x64_sys_sendto ([kernel.kallsyms])
\tffffffff8102 do_syscall_64 ([kernel.kallsyms])
\t    7f0000 __send (/usr/lib/libc.so.6)

\tffffffff8103 finish_task_switch ([kernel.kallsyms])
\tffffffff8104 exit_to_user_mode_loop ([kernel.kallsyms])
\tffffffff8102 do_syscall_64 ([kernel.kallsyms])
\t    7f0000 __send (/usr/lib/libc.so.6)

\t    7f0010 copy (/build/zstandard/backend_c.cpython-311-x86_64-linux-gnu.so)

\t    7f0020 _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)
"""

PY_SPY = """\
main (kwire/cli/serve.py:10);append (kwire/log/partition_log.py:20) 60
main (kwire/cli/serve.py:10);append (kwire/log/partition_log.py:21) 20
main (kwire/cli/serve.py:10);run (kwire/connection/poller.py:5);send (kwire/outbox.py:1) 20
"""

IMPORTS = """\
import time: self [us] | cumulative | imported package
import time:      3000 |       3000 |   trio._core
import time:      1000 |       4000 | trio
import time:      4000 |       4000 | kwire.log
"""


def test_the_kernels_share_is_told_by_system_call() -> None:
    """Being put aside for another process is none of them."""
    text = condensed_perf(PERF)
    assert "4 samples of CPU time: kernel 50%, user space 50%" in text
    assert "  25.0 %  sendto\n" in text
    assert "  25.0 %  on the way back from one: another process" in text
    assert "  25.0 %  copy (backend_c.cpython-311-x86_64-linux-gnu.so)\n" in text
    assert "  25.0 %  libpython3.11.so.1.0\n" in text


def test_python_functions_are_told_without_their_lines() -> None:
    """By themselves and with what they call; what everything runs in says nothing."""
    own, within = condensed_py_spy(PY_SPY).split("\n\n")
    assert "  80.0 %  append (kwire/log/partition_log.py)\n" in own
    assert "  20.0 %  run (kwire/connection/poller.py)\n" in within
    assert "main" not in own + within


def test_imports_are_told_by_package() -> None:
    """Each module's own time."""
    text = condensed_imports(IMPORTS)
    assert "3 modules are imported, in 8 ms" in text
    assert "  50.0 %  trio\n" in text
    assert "  37.5 %  trio._core\n" in text


def test_an_idle_broker_has_no_profile() -> None:
    """The profile says so."""
    assert "nothing" in condensed_perf("")
    assert "nothing" in condensed_py_spy("")
    assert "no imports" in condensed_imports("")


def test_every_load_has_a_file_of_its_own() -> None:
    """Which all its rows share."""
    rows = selected(ALL_ROWS, "10 in flight")
    assert [slug(row) for row in one_of_each_load(rows)] == ["1-connection-10-in-flight"]
    assert len(one_of_each_load(ALL_ROWS)) == len({row.load or row.name for row in ALL_ROWS})
