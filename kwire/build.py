"""Tells which build of kwire runs: pure Python, or the build whose hot modules mypyc compiled.

Both builds have the same sources and the same behavior. ``setup.py`` lists the compiled modules.
"""

from importlib.util import find_spec

from kwire import __version__

_A_COMPILED_MODULE = "kwire.record.varint"


def is_compiled() -> bool:
    """Whether the hot modules are extension modules. The function imports none of them."""
    spec = find_spec(_A_COMPILED_MODULE)
    return spec is not None and not (spec.origin or "").endswith(".py")


def version_text() -> str:
    """The version of kwire and its build: ``0.1.0``, or ``0.1.0+compiled``."""
    return f"{__version__}+compiled" if is_compiled() else __version__
