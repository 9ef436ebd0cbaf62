"""CRC-32C, the checksum of record batches and of snapshots of producers.

It comes from the extension module of the package ``crc32c``. The package around it isn't run: it
reads the metadata of what is installed to learn its own version, which takes longer than the start
of an interpreter. Where the extension isn't in its place the package is imported after all.
"""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final, Protocol, cast

PACKAGE: Final = "crc32c"
EXTENSION: Final = "crc32c._crc32c"


class Checksum(Protocol):
    """Gives the checksum of ``data``; ``value`` is that of what came before."""

    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0, /) -> int: ...


def _load() -> Checksum:
    package = PathFinder.find_spec(PACKAGE)
    places = None if package is None else package.submodule_search_locations
    spec = None if places is None else PathFinder.find_spec(EXTENSION, places)
    if spec is None or spec.loader is None:
        from crc32c import crc32c

        return crc32c
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(Checksum, module.crc32c)


crc32c: Final[Checksum] = _load()
