"""CreateAcls: creates access control entries, all valid ones of a request in one commit.

Behavior: an entry that exists is no error. An invalid one has an error of its own. Without an
authorizer every entry is SECURITY_DISABLED. The number UNKNOWN (0) ends the connection, and an
entry with a number that stands for nothing is INVALID_REQUEST, as in Kafka.
"""

from collections.abc import Sequence

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.describe_acls import check_numbers
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.metadata_commits import GivesWay, commit_in_slices
from kwire.handlers.lib.rights import ALTER, once
from kwire.handlers.lib.slices import free_in_slices, pieces
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.acls import (
    AclBinding,
    check_binding,
    created,
)
from kwire.metadata.changes import Change
from kwire.metadata.features import ACLS_LEVEL, CHANGES_VERSION
from kwire.metadata.image import MetadataImage
from kwire.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

BYTES = 60

NO_AUTHORIZER = "No Authorizer is configured."


RIGHTS = (once(ALTER, every=True),)


@in_task
async def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    """Create every valid entry."""
    results: list[AclCreationResult] = []
    bindings: list[AclBinding] = []
    valid: list[AclCreationResult] = []
    for piece in pieces(request.creations):
        await context.work.give_way()
        context.work.answer(BYTES * len(piece))
        for creation in piece:
            result = AclCreationResult(error_message=None)
            results.append(result)
            try:
                bindings.append(_binding(creation, context))
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.message
            else:
                valid.append(result)
    free_in_slices(bindings, context.work)
    try:
        await _create(bindings, context)
    except KafkaError as error:
        for results_of_piece in pieces(valid):
            await context.work.give_way()
            for result in results_of_piece:
                result.error_code, result.error_message = error.code, error.message
    free_in_slices(valid, context.work)
    return CreateAclsResponse(results=results)


async def _create(wanted: Sequence[AclBinding], context: RequestContext) -> None:
    """Create the entries that don't exist; KafkaError."""

    async def decide(image: MetadataImage, work: GivesWay) -> Sequence[Change]:
        check_level(image)
        new: dict[AclBinding, None] = {}
        for piece in pieces(wanted):
            await work.give_way()
            new.update(dict.fromkeys(acl for acl in piece if acl not in image.acls))
        return created(image.acls, tuple(new))

    if wanted:
        await commit_in_slices(context, decide)


def _binding(creation: AclCreation, context: RequestContext) -> AclBinding:
    """The entry that a client wants to create; KafkaError, MalformedRequest."""
    check_numbers(
        *(creation.resource_type, creation.resource_pattern_type),
        *(creation.operation, creation.permission_type),
    )
    if context.broker.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    binding = AclBinding(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )
    check_binding(binding)
    return binding


def check_level(image: MetadataImage) -> None:
    """Raise KafkaError (UNSUPPORTED_VERSION) while a broker of the cluster may not know ACLs."""
    if image.feature_level(CHANGES_VERSION) < ACLS_LEVEL:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"The cluster has level {image.feature_level(CHANGES_VERSION)} of {CHANGES_VERSION}, "
            f"but ACLs need level {ACLS_LEVEL}: raise it when all brokers run this version.",
        )
