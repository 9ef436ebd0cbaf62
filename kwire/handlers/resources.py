"""Alters the configs of many resources in one commit, for both requests that do so.

Behaviour: each resource has its own result. A resource that is named twice is refused each time.
Resources don't depend on each other, so one image serves for all decisions.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.handlers.decisions import Price, commit_in_slices
from kwire.handlers.slices import pieces
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage

UNITS = 2
UNITS_PER_RESOURCE = 60
UNITS_PER_CONFIG = 3
UNITS_TO_WARN = 10


class Resource(Protocol):
    """A resource of a request."""

    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sequence[object]:
        """The configs that the request names."""
        ...


class Outcome(NamedTuple):
    """The result for a resource."""

    code: int = ErrorCode.NONE
    message: str | None = None


_DONE = Outcome()
_TWICE = Outcome(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")

_R = TypeVar("_R", bound=Resource)


async def alter_all(
    resources: Sequence[_R],
    decide: Callable[[_R, MetadataImage], list[Change]],
    context: RequestContext,
    validate_only: bool,
    alter_own: Callable[[_R], bool] = lambda resource: False,
) -> list[tuple[_R, Outcome]]:
    """Alter every resource whose change is allowed; return the results in order.

    ``decide`` gives the changes of one resource. ``alter_own`` alters a resource that isn't in the
    metadata, and returns whether it was of that kind. Both raise KafkaError.
    """
    alteration = _Alteration(resources, decide, alter_own, context)
    await alteration.read()
    try:
        await commit_in_slices(context, alteration.decide, validate_only=validate_only)
    except KafkaError as error:
        alteration.fail(error)
    return list(zip(resources, alteration.outcomes, strict=True))


class _Alteration(Generic[_R]):
    """The resources of a request; ``outcomes`` are those of the last decision."""

    def __init__(
        self,
        resources: Sequence[_R],
        decide: Callable[[_R, MetadataImage], list[Change]],
        alter_own: Callable[[_R], bool],
        context: RequestContext,
    ) -> None:
        self.outcomes = [_DONE] * len(resources)
        self._resources = resources
        self._decide = decide
        self._alter_own = alter_own
        self._context = context
        self._places: list[int] = []  # the places of the resources that need a decision

    async def read(self) -> None:
        """Refuse resources that are named twice, and alter those that aren't in the metadata."""
        work = self._context.work
        names: Counter[tuple[int, str]] = Counter()
        for piece in pieces(self._resources):
            if work.spend(len(piece)):
                await work.next_slice()
            names.update((one.resource_type, one.resource_name) for one in piece)
        for place, resource in enumerate(self._resources):
            if work.spend(UNITS):
                await work.next_slice()
            if names[resource.resource_type, resource.resource_name] > 1:
                self.outcomes[place] = _TWICE
                continue
            try:
                if not self._alter_own(resource):
                    self._places.append(place)
            except KafkaError as error:
                self.outcomes[place] = Outcome(error.code, error.message or None)

    async def decide(self, image: MetadataImage, work: Price) -> Sequence[Change]:
        """The changes of every resource whose change is allowed."""
        changes: list[Change] = []
        for place in self._places:
            resource = self._resources[place]
            if work.spend(UNITS_PER_RESOURCE + UNITS_PER_CONFIG * len(resource.configs)):
                await work.next_slice()
            try:
                changes += self._decide(resource, image)
                self.outcomes[place] = _DONE
            except KafkaError as error:
                self.outcomes[place] = Outcome(error.code, error.message or None)
        return changes

    def fail(self, error: KafkaError) -> None:
        """Give the error of a failed commit to every resource of the metadata."""
        for place in self._places:
            if self.outcomes[place] is _DONE:
                self.outcomes[place] = Outcome(error.code, error.message or None)
