"""Which threads do some work: what takes long isn't done where all clients are served."""

import threading
from types import ModuleType

import pytest


def threads_that_call(
    patch: pytest.MonkeyPatch, library: ModuleType, name: str
) -> list[threading.Thread]:
    """The threads that call a function of a library from now on, which does what it did."""
    real, found = getattr(library, name), []

    def noted(*arguments: object, **options: object) -> object:
        found.append(threading.current_thread())
        return real(*arguments, **options)

    patch.setattr(library, name, noted)
    return found
