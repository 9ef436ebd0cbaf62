"""Alters the configs of many resources in one commit, for AlterConfigs and IncrementalAlterConfigs.

Behavior: each resource has its own result. A resource that is named twice is refused each time.
The operator's policy may refuse a change (``config.policies``).
Resources don't depend on each other, so all changes are decided on one image.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from kwire.config.policies import ConfigsRequest, check
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.api_versions import takes_telemetry
from kwire.handlers.lib import unfollowed
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.metadata_commits import GivesWay, commit_in_slices
from kwire.handlers.lib.slices import free_in_slices, pieces
from kwire.metadata.changes import Change, ConfigChanged
from kwire.metadata.config_control import resource_type
from kwire.metadata.image import MetadataImage


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
_Response = TypeVar("_Response")


async def alter_all(
    resources: Sequence[_R],
    decide: Callable[[_R, MetadataImage], list[Change]],
    context: RequestContext,
    validate_only: bool,
    alter_own: Callable[[_R], bool] = lambda resource: False,
) -> list[tuple[_R, Outcome]]:
    """Alter every resource whose change is allowed; return the results in order.

    ``decide`` gives the changes of one resource. ``alter_own`` alters a resource that the metadata
    doesn't hold, and returns True; it returns False for the other resources. Both raise KafkaError.
    """
    alteration = _Alteration(resources, decide, alter_own, context)
    await alteration.refuse_and_start()
    try:
        await commit_in_slices(context, alteration.decide, validate_only=validate_only)
    except KafkaError as error:
        await alteration.fail(error)
    outcomes = await alteration.results()
    free_in_slices(alteration.outcomes, context.work)
    free_in_slices(alteration.places, context.work)
    free_in_slices(outcomes, context.work)
    return outcomes


async def warn_all(
    outcomes: Sequence[tuple[_R, Outcome]],
    set_names: Callable[[_R], list[str]],
    context: RequestContext,
) -> None:
    """Log a warning for each altered resource with configs that have no effect.

    ``set_names`` gives the names of the configs that the request set for a resource.
    """
    for resource, outcome in outcomes:
        await context.work.give_way()
        names = [] if outcome.code else set_names(resource)
        if names:
            target = (resource_type(resource.resource_type), resource.resource_name)
            broker = context.broker
            unfollowed.warn(target, names, broker.config, takes_telemetry=takes_telemetry(broker))


async def responses(
    outcomes: Sequence[tuple[_R, Outcome]],
    response: Callable[..., _Response],
    context: RequestContext,
) -> list[_Response]:
    """The results of all resources; ``response`` is the message class for one result."""
    made: list[_Response] = []
    for piece in pieces(outcomes):
        await context.work.give_way()
        made += [
            response(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=outcome.code,
                error_message=outcome.message,
            )
            for resource, outcome in piece
        ]
    return made


class _Alteration(Generic[_R]):
    """The resources of a request.

    ``outcomes`` are their results after the latest ``decide``. ``places`` are the indexes of the
    resources that need a decision.
    """

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
        self.places: list[int] = []

    async def refuse_and_start(self) -> None:
        """Refuse resources that are named twice; alter resources that aren't in the metadata."""
        work = self._context.work
        names: Counter[tuple[int, str]] = Counter()
        for piece in pieces(self._resources):
            await work.give_way()
            names.update((one.resource_type, one.resource_name) for one in piece)
        free_in_slices(names, work)
        for place, resource in enumerate(self._resources):
            await work.give_way()
            if names[resource.resource_type, resource.resource_name] > 1:
                self.outcomes[place] = _TWICE
                continue
            try:
                if not self._alter_own(resource):
                    self.places.append(place)
            except KafkaError as error:
                self.outcomes[place] = Outcome(error.code, error.message or None)

    async def decide(self, image: MetadataImage, work: GivesWay) -> Sequence[Change]:
        """The changes of every resource whose change is allowed."""
        changes: list[Change] = []
        for place in self.places:
            resource = self._resources[place]
            await work.give_way()
            try:
                wanted = self._decide(resource, image)
                self._check_policy(resource, wanted)
                changes += wanted
                self.outcomes[place] = _DONE
            except KafkaError as error:
                self.outcomes[place] = Outcome(error.code, error.message or None)
        return changes

    def _check_policy(self, resource: _R, changes: Sequence[Change]) -> None:
        kind, name = resource_type(resource.resource_type), resource.resource_name
        configs = {
            change.name: change.value
            for change in changes
            if isinstance(change, ConfigChanged) and change.value is not None
        }
        check(self._context.broker.alter_config_policy, ConfigsRequest(kind.name, name, configs))

    async def fail(self, error: KafkaError) -> None:
        """Give the error of a failed commit to every resource of the metadata."""
        failed = Outcome(error.code, error.message or None)
        for piece in pieces(self.places):
            await self._context.work.give_way()
            for place in piece:
                if self.outcomes[place] is _DONE:
                    self.outcomes[place] = failed

    async def results(self) -> list[tuple[_R, Outcome]]:
        """Every resource with its outcome, in the order of the request."""
        found: list[tuple[_R, Outcome]] = []
        parts = zip(pieces(self._resources), pieces(self.outcomes), strict=True)
        for resources, outcomes in parts:
            await self._context.work.give_way()
            found += zip(resources, outcomes, strict=True)
        return found
