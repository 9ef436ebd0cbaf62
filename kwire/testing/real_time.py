"""The real time, while a test has frozen it for the code under test.

Rules:

- A broker whose time stood still would never answer, and would take a record of today for one of
  the future. Brokers of tests, and waits, therefore go by the clocks of ``kwire.clock``.
- freezegun replaces functions of ``time`` and ``datetime`` wherever a module has them. The pytest
  plugin has it leave the modules of kwire and trio alone.
- time-machine replaces them in the interpreter, and has a way out for the date.
"""

import sys
from contextlib import suppress

from kwire.clock import wall_clock_ms


def real_date_ms() -> int:
    """Milliseconds since the epoch."""
    time_machine = sys.modules.get("time_machine")
    if time_machine is not None:
        with suppress(ValueError):  # the test is in the present
            return int(time_machine.escape_hatch.time.time_ns()) // 1_000_000
    return wall_clock_ms()
