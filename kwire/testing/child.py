"""``python -m kwire.testing.child …`` is ``kwire …`` as a test starts it: faults, and an end.

It dies with the process that started it, if ``KWIRE_DIES_WITH`` has its id. Linux kills it as soon
as its parent is dead, even if it hangs or another process has inherited the pipe of its standard
input. That pipe does the same elsewhere (``kwire.cli.process_tuning``).

Its requests meet the faults that come through the descriptor in ``KWIRE_FAULTS``
(``kwire.testing.faults.elsewhere``).
"""

import ctypes
import os
import signal
import sys

PARENT = "KWIRE_DIES_WITH"
PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Let the system kill this process with its parent; exit if the parent is already dead."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    if PARENT in os.environ:
        die_with_parent(int(os.environ[PARENT]))
    from kwire.cli import main
    from kwire.testing.faults.elsewhere import DESCRIPTOR, serve_faults

    open_frame = None
    if DESCRIPTOR in os.environ:
        open_frame = serve_faults(int(os.environ[DESCRIPTOR])).open_frame
    sys.exit(main(open_frame=open_frame))
