"""CRC-32C, the checksum of record batches and of producer snapshots.

It comes from the extension module of the package ``crc32c``. The package's own ``__init__`` isn't
run: to find its version it reads the metadata of all installed packages, which takes longer than
starting an interpreter. If the extension can't be found, the package is imported after all.
"""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final, Protocol, cast

PACKAGE: Final = "crc32c"
EXTENSION: Final = "crc32c._crc32c"


class Checksum(Protocol):
    """Returns the checksum of ``data``; ``value`` is the checksum of the bytes before it."""

    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0, /) -> int: ...


def load(extension: str) -> Checksum:
    """The function of this extension module, of the package itself if there is no such module."""
    package = PathFinder.find_spec(PACKAGE)
    places = None if package is None else package.submodule_search_locations
    spec = None if places is None else PathFinder.find_spec(extension, places)
    if spec is None or spec.loader is None:
        from crc32c import crc32c

        return crc32c
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(Checksum, module.crc32c)


crc32c: Final[Checksum] = load(EXTENSION)
