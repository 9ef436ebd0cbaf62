"""The same work on many values, in several threads.

The thread that asks for the work takes part in it. So if the system refuses to start a thread, the
work takes longer, but it is done: a start or a stop of the broker doesn't fail because other
programs use all threads.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_R = TypeVar("_R")


def parallel_map(
    function: Callable[[_T], _R], values: Sequence[_T], threads: int, name: str
) -> list[_R]:
    """``function(value)`` for every value, in their order, by so many ``threads`` together.

    ``name`` is the name of the further threads. After an error no further value is begun. When all
    threads have ended, the error of the first value that has one is raised.
    """
    mapping = _Mapping(function, values)
    helpers: list[threading.Thread] = []
    for _ in range(min(threads, len(values)) - 1):
        helper = threading.Thread(target=mapping.work, name=name)
        try:
            helper.start()
        except RuntimeError as error:
            count = len(helpers) + 1
            log.warning("the system refuses a new thread (%s); %d do the work", error, count)
            break
        helpers.append(helper)
    mapping.work()
    for helper in helpers:
        helper.join()
    return mapping.results()


class _Mapping(Generic[_T, _R]):
    """The values that no thread has begun, and the results so far by the value's number."""

    def __init__(self, function: Callable[[_T], _R], values: Sequence[_T]) -> None:
        self._function = function
        self._left = list(enumerate(values))[::-1]
        self._results: dict[int, _R] = {}
        self._errors: dict[int, BaseException] = {}

    def work(self) -> None:
        """Take one value after the other, until none is left or one has failed."""
        while not self._errors:
            try:
                number, value = self._left.pop()
            except IndexError:
                return
            try:
                self._results[number] = self._function(value)
            except BaseException as error:  # it is raised in the thread that has asked
                self._errors[number] = error

    def results(self) -> list[_R]:
        """The results in the order of the values; raises the first error."""
        if self._errors:
            raise self._errors[min(self._errors)]
        # Callers pair the results with the values.
        assert not self._left, len(self._left)
        return [result for _, result in sorted(self._results.items(), key=lambda item: item[0])]
