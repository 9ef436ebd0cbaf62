"""The command line: ``kwire serve`` and the other commands, one module for each.

Rules:

- A command's module has ``add_parser(commands)`` and ``run(options)``. It is imported when its
  command is given, and imports its own needs in ``run``, so that no command loads another's code.
  ``commands`` names the modules, ``parsing`` reads the command line.
- Exit codes: 0 after success, 1 after a failure, with one line on stderr that names it, 2 for a
  wrong command line, 130 for Ctrl-C in a command that doesn't handle it.
- A reader that ends early, such as head, is no error. Output that finds no room is one.
- A standard stream that the caller has closed is as empty as /dev/null.
"""

import errno
import os
import sys
import warnings
from collections.abc import Sequence

from kwire.cli.output import drop_output, fail
from kwire.cli.parsing import parse

NOT_ON_WINDOWS = (
    "this is Windows, where kwire does not run: its log needs POSIX file locks, and files that can "
    "be renamed and deleted while they are open. Run kwire in WSL (wsl --install) or in a Linux "
    "container; clients on Windows can connect to it there"
)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
INTERRUPTED = 130
"""A shell's exit code for a command that ended with Ctrl-C."""


def main(arguments: Sequence[str] | None = None, **more: object) -> int:
    """Run one command; returns the exit code.

    ``more`` are options that no command line has, for a broker of tests.
    """
    if sys.platform == "win32":
        return fail(NOT_ON_WINDOWS)
    _open_closed_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        options = parse(given)
        vars(options).update(more)
        exit_code: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:  # a command that has to undo something handles signals itself
        # A coroutine that Ctrl-C kept from beginning would be told of when it is freed at exit.
        warnings.simplefilter("ignore", RuntimeWarning)
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()  # the reader, such as head, has ended
        return 0
    except OSError as error:
        if error.filename is not None or error.errno not in NO_ROOM:
            raise
        drop_output()
        return fail(f"cannot write the output: {error.strerror}; make room, or write it elsewhere")
    return exit_code


def _open_closed_streams() -> None:
    """Open standard streams that the caller has closed; Python has None for them.

    Without this the first file that a command opens would get the number of such a stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
