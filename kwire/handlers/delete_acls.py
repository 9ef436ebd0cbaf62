"""DeleteAcls: deletes the access control entries that filters match, in one commit.

Behavior:

- Each filter has its own result, with the entries that it matched.
- As in Kafka, a filter whose type, operation or permission is UNKNOWN (0) ends the connection. A
  filter with a number that Kafka doesn't define gets INVALID_REQUEST.
- A request that would delete more than ``MOST_PER_REQUEST`` entries is refused as a whole.
- Without an authorizer every filter gets SECURITY_DISABLED.
"""

from collections.abc import Sequence

from kwire.budget.work import Work
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.create_acls import NO_AUTHORIZER
from kwire.handlers.describe_acls import acl_filter
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.metadata_commits import GivesWay, commit_in_slices
from kwire.handlers.lib.rights import ALTER, once
from kwire.handlers.lib.slices import pieces
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.acls import (
    MOST_PER_REQUEST,
    AclBinding,
    AclFilter,
    Acls,
    AclsDeleted,
    check_filter,
    in_changes,
    too_many,
)
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage
from kwire.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

MOST_FILTERS = 1000
"""A request with more filters is refused, because every filter is compared with every entry."""

MOST_MATCHES = 100_000
"""A request whose filters match more entries, counted for each filter, is refused: the answer
names an entry once for each filter that matches it."""

BYTES = 60


RIGHTS = (once(ALTER, every=True),)


@in_task
async def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    """Delete every entry that a filter matches."""
    work = context.work
    work.answer(BYTES * len(request.filters))
    filters: list[AclFilter | KafkaError] = []
    for piece in pieces(request.filters[:MOST_FILTERS]):
        await work.give_way()
        filters += map(_filter, piece)
    deletion = _Deletion(filters)
    try:
        if context.broker.authorizer is None:
            raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        if len(request.filters) > MOST_FILTERS:
            raise too_many()
        await commit_in_slices(context, deletion.decide)
    except KafkaError as error:
        return DeleteAclsResponse(filter_results=[_refusal(error)] * len(request.filters))
    return DeleteAclsResponse(
        filter_results=[
            _refusal(one) if isinstance(one, KafkaError) else await _result(found, work)
            for one, found in zip(filters, deletion.found, strict=True)
        ]
    )


def _filter(one: DeleteAclsFilter) -> AclFilter | KafkaError:
    """A filter of the request, or what is wrong with it; MalformedRequest."""
    wanted = acl_filter(
        (one.resource_type_filter, one.resource_name_filter, one.pattern_type_filter),
        (one.principal_filter, one.host_filter, one.operation, one.permission_type),
    )
    try:
        check_filter(wanted)
    except KafkaError as error:
        return error.to_keep()
    return wanted


def _refusal(error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error.code, error_message=error.message)


class _Deletion:
    """The entries that a request's filters match; ``found`` has those of the last decision."""

    def __init__(self, filters: Sequence[AclFilter | KafkaError]) -> None:
        self.found: list[list[AclBinding]] = []
        self._filters = filters
        self._acls: Acls | None = None
        self._changes: Sequence[Change] = ()

    async def decide(self, image: MetadataImage, work: GivesWay) -> Sequence[Change]:
        """The change that deletes every entry; KafkaError for too many.

        ``decide`` may be called several times. While no ACL changes, it returns the same decision.
        """
        if image.acls is not self._acls:
            self._acls = None
            self._changes = await self._decide(list(image.acls), work)
            self._acls = image.acls
        return self._changes

    async def _decide(self, every: Sequence[AclBinding], work: GivesWay) -> Sequence[Change]:
        self.found = []
        deleted: dict[AclBinding, None] = {}
        matches = 0
        for one in self._filters:
            found: list[AclBinding] = []
            self.found.append(found)
            if isinstance(one, KafkaError):
                continue
            for piece in pieces(every):
                await work.give_way()
                matching = list(filter(one.matches, piece))
                found += matching
                matches += len(matching)
                deleted.update(dict.fromkeys(matching))
                if len(deleted) > MOST_PER_REQUEST or matches > MOST_MATCHES:
                    raise too_many()
        return in_changes(AclsDeleted, deleted)


async def _result(bindings: Sequence[AclBinding], work: Work) -> DeleteAclsFilterResult:
    matching: list[DeleteAclsMatchingAcl] = []
    for piece in pieces(bindings):
        await work.give_way()
        work.answer(sum(BYTES + len(acl.name) + len(acl.principal) for acl in piece))
        matching += [
            DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=acl.resource_type,
                resource_name=acl.name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in piece
        ]
    return DeleteAclsFilterResult(error_message=None, matching_acls=matching)
