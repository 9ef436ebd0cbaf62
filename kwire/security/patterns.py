"""The patterns in rules for principals. RE2 matches them, which takes linear time.

With Java's or Python's backtracking matchers, a client could choose a name whose match takes hours
and stops the broker.

Rule: RE2 has neither back references nor lookaround. A rule that uses one of them stops the start,
though Java accepts it.

Source: SslPrincipalMapper and KerberosRule of Kafka, which use java.util.regex.
"""

from importlib import import_module
from typing import Any

MEMORY_BYTES = 1 << 20
"""The most memory that the automaton of one pattern may take."""


def compile_pattern(text: str) -> Any:
    """Compile a pattern; the result has the methods of ``re.Pattern``. ValueError if RE2 refuses
    it.
    """
    re2 = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        said = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"invalid pattern {text}: {said} (the syntax is RE2's)") from None
