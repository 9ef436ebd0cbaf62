"""Where the records of a registry are kept: the interface, and the one in memory, for tests."""

from collections.abc import Sequence
from typing import Protocol

from kwire.registry.records import RegistryRecord, decode, encode
from kwire.registry.state import RegistryState


class Journal(Protocol):
    """The records in their order, and the state that they add up to.

    Its methods raise Refused (50001) if the records can't be read or written at the moment.
    """

    state: RegistryState

    async def ready(self) -> None:
        """Wait until the records that were there at the start are part of the state."""

    async def catch_up(self) -> None:
        """Wait until every record that was written is part of the state, before a change."""

    async def append(self, records: Sequence[RegistryRecord]) -> None:
        """Write records behind those of the state, and wait until they are part of it.

        They are all written, or none is. If another registry has written meanwhile, none is.
        """


class MemoryJournal:
    """A journal that keeps the state only."""

    def __init__(self) -> None:
        self.state = RegistryState()

    async def ready(self) -> None:
        """Nothing is read."""

    async def catch_up(self) -> None:
        """Nobody else writes."""

    async def append(self, records: Sequence[RegistryRecord]) -> None:
        """Apply the records, as they are read again."""
        for record in records:
            is_kept = self.state.apply(decode(*encode(record)))
            assert is_kept, "a change contradicts the state that it was made for"
