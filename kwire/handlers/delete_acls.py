"""DeleteAcls: deletes the access control entries that filters match, in one commit.

Behaviour: each filter has its own result, with the entries that it matched. More than
``MOST_PER_REQUEST`` entries in one request are refused, and nothing is deleted. Without an
authorizer every filter is SECURITY_DISABLED.
"""

from collections.abc import Sequence

from kwire.budget.work import Work
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.handlers.create_acls import NO_AUTHORIZER
from kwire.handlers.decisions import Price, commit_in_slices
from kwire.handlers.describe_acls import acl_filter
from kwire.handlers.slices import pieces
from kwire.metadata.acls import (
    MOST_PER_REQUEST,
    AclBinding,
    AclFilter,
    AclsDeleted,
    in_changes,
    too_many,
)
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage
from kwire.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

MOST_FILTERS = 1000
"""More filters of one request are refused: each looks at every entry."""

ACLS_PER_UNIT = 2
BYTES = 50


async def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    """Delete every entry that a filter matches."""
    filters = [
        acl_filter(
            (one.resource_type_filter, one.resource_name_filter, one.pattern_type_filter),
            (one.principal_filter, one.host_filter, one.operation, one.permission_type),
        )
        for one in request.filters[:MOST_FILTERS]
    ]
    deletion = _Deletion(filters)
    try:
        if context.broker.authorizer is None:
            raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        if len(request.filters) > MOST_FILTERS:
            raise too_many()
        await commit_in_slices(context, deletion.decide)
    except KafkaError as error:
        refusal = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
        return DeleteAclsResponse(filter_results=[refusal for _ in request.filters])
    return DeleteAclsResponse(
        filter_results=[await _result(found, context.work) for found in deletion.found]
    )


class _Deletion:
    """What the filters of one request match; ``found`` is of the last decision."""

    def __init__(self, filters: Sequence[AclFilter]) -> None:
        self.found: list[list[AclBinding]] = []
        self._filters = filters

    async def decide(self, image: MetadataImage, work: Price) -> Sequence[Change]:
        """The change that deletes every entry; KafkaError for too many."""
        self.found = []
        deleted: dict[AclBinding, None] = {}
        every = list(image.acls)
        for one in self._filters:
            found: list[AclBinding] = []
            for piece in pieces(every):
                if work.spend(len(piece) // ACLS_PER_UNIT):
                    await work.next_slice()
                found += filter(one.matches, piece)
            deleted.update(dict.fromkeys(found))
            if len(deleted) > MOST_PER_REQUEST:
                raise too_many()
            self.found.append(found)
        return in_changes(AclsDeleted, deleted)


async def _result(found: Sequence[AclBinding], work: Work) -> DeleteAclsFilterResult:
    matching: list[DeleteAclsMatchingAcl] = []
    for piece in pieces(found):
        if work.spend(2 * len(piece)):
            await work.next_slice()
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
