"""Which build of kwire this is: pure Python, or one whose hot modules are compiled.

Both have the same sources and behave alike; ``setup.py`` lists what is compiled.
"""

from importlib.util import find_spec

from kwire import __version__

_A_COMPILED_MODULE = "kwire.record.varint"


def is_compiled() -> bool:
    """Whether the hot modules are extension modules. Imports none of them."""
    spec = find_spec(_A_COMPILED_MODULE)
    return spec is not None and not (spec.origin or "").endswith(".py")


def version_text() -> str:
    """``0.1.0``, or ``0.1.0+compiled``."""
    return f"{__version__}+compiled" if is_compiled() else __version__
