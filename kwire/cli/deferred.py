"""Modules that are loaded only when they are used, because a broker usually doesn't need them.

Importing trio imports the modules for TLS. A broker without TLS would load the OpenSSL libraries
for nothing, which takes a tenth of its start and megabytes of memory.

A deferred module is in ``sys.modules`` without its contents. The first access to a missing
attribute executes the module, as its import would have done. From then on it is a normal module.
"""

import sys
import threading
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

UNUSED_BY_A_BROKER = ("ssl", "hmac", "idna", "ipaddress", "selectors", "textwrap", "tokenize")
"""Modules that trio imports for TLS and non-ASCII host names, and that the standard library imports
for URLs, for sockets without an event loop, and for the source lines of a traceback."""


def defer(names: Iterable[str]) -> None:
    """Defer modules until their first use; loaded and missing modules are skipped."""
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
        self._lock = threading.RLock()  # reentrant: a module that executes may read its attributes
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
