"""Patterns in the rules of principals, matched by RE2: in linear time, whatever a client's name is.

Rule: RE2 has neither back references nor lookaround. A rule with one of them is refused at the
start, where Java would take it: a name that a client chooses could stop the broker in it.

Source: SslPrincipalMapper and KerberosRule of Kafka, which use java.util.regex.
"""

from importlib import import_module
from typing import Any

MEMORY_BYTES = 1 << 20
"""What the automaton of one pattern takes at most."""


def compile_pattern(text: str) -> Any:
    """A pattern with the methods of ``re.Pattern``; ValueError for one that RE2 doesn't know."""
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
