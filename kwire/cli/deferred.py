"""Modules that a library imports and a broker doesn't use: loaded when something is asked of them.

trio imports what TLS needs. A broker without it would load the OpenSSL libraries for nothing: a
tenth of its start, and megabytes.

A deferred module stands in ``sys.modules`` without its contents. The first attribute that isn't
there executes it, as its import would have done, and from then on it is like any other.
"""

import sys
import threading
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

UNUSED_BY_A_BROKER = ("ssl", "hmac", "idna", "ipaddress", "selectors", "textwrap", "tokenize")
"""What trio imports for TLS and host names that aren't ASCII, and what the standard library imports
for URLs, for sockets without an event loop, and to show source in a traceback."""


def defer(names: Iterable[str]) -> None:
    """Put modules off until they are used; those that are loaded, or aren't there, are let be."""
    for name in names:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            module = module_from_spec(spec)
            vars(module)["__getattr__"] = _Loading(module, spec)
            sys.modules[name] = module


class _Loading:
    """The ``__getattr__`` of a deferred module."""

    def __init__(self, module: ModuleType, spec: ModuleSpec) -> None:
        self._module = module
        self._spec = spec
        self._lock = threading.RLock()  # a module that is being executed may look at itself
        self._is_begun = False

    def __call__(self, name: str) -> Any:
        with self._lock:
            if not self._is_begun:
                self._is_begun = True
                assert self._spec.loader is not None
                self._spec.loader.exec_module(self._module)
                if vars(self._module).get("__getattr__") is self:
                    del self._module.__getattr__
        try:
            return vars(self._module)[name]
        except KeyError:
            raise AttributeError(
                f"module {self._module.__name__!r} has no attribute {name!r}"
            ) from None
