"""AlterClientQuotas: sets and removes quotas of users, client ids and addresses (KIP-546).

Behavior: each entity has its own result, and all entities without an error are changed in one
commit. Other brokers learn of it by the metadata. An address is stored in its usual form; host
names aren't looked up. UNSUPPORTED_VERSION while the cluster's ``kwire.changes`` is too low. A
request with an entity of more than ``MOST_PARTS`` parts or values ends the connection.
"""

from collections.abc import Sequence

from kwire.budget.work import Work
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.metadata_commits import GivesWay, commit_in_slices
from kwire.handlers.lib.rights import ALTER_CONFIGS, once
from kwire.handlers.lib.slices import free_in_slices, pieces
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.changes import Change
from kwire.metadata.features import CHANGES_VERSION, QUOTAS_LEVEL
from kwire.metadata.image import MetadataImage
from kwire.metadata.quotas import Alteration, Alterations, QuotaEntity, entity_of
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)

BYTES = 60

MOST_PARTS = 100
"""Kafka has 3 types of entities and 5 keys, but accepts names and removals that mean nothing."""


RIGHTS = (once(ALTER_CONFIGS, every=True),)


@in_task
async def handle(
    request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    """Alter the quotas of every entity whose alteration is valid."""
    work = context.work
    results: dict[QuotaEntity, KafkaError | None] = {}

    async def decide(image: MetadataImage, work: GivesWay) -> Sequence[Change]:
        nonlocal results
        if image.feature_level(CHANGES_VERSION) < QUOTAS_LEVEL:
            text = f"Client quotas need level {QUOTAS_LEVEL} of {CHANGES_VERSION}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        await work.give_way()
        alterations = Alterations(image.client_quotas)
        for one in asked:
            await work.give_way()
            alterations.decide_next(one)
        results = alterations.results
        return alterations.changes

    asked = await _alterations_of(request, work)
    try:
        await commit_in_slices(context, decide, validate_only=request.validate_only)
    except KafkaError as error:
        free_in_slices(results, work)
        results = await _all_failed(asked, error, work)
    free_in_slices(asked, work)
    free_in_slices(results, work)
    return await _results(results, work)


async def _all_failed(
    alterations: Sequence[Alteration], error: KafkaError, work: Work
) -> dict[QuotaEntity, KafkaError | None]:
    failed: dict[QuotaEntity, KafkaError | None] = {}
    for piece in pieces(alterations):
        await work.give_way()
        failed.update((one.entity, error) for one in piece)
    return failed


async def _alterations_of(request: AlterClientQuotasRequest, work: Work) -> list[Alteration]:
    asked = []
    for entry in request.entries:
        await work.give_way()
        asked.append(_alteration(entry))
    return asked


def _alteration(entry: AlterClientQuotasRequestEntryData) -> Alteration:
    if max(len(entry.entity), len(entry.ops)) > MOST_PARTS:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"an entity of more than {MOST_PARTS} parts")
    entity = entity_of((one.entity_type, one.entity_name) for one in entry.entity)
    return Alteration(entity, [(op.key, None if op.remove else op.value) for op in entry.ops])


async def _results(
    results: dict[QuotaEntity, KafkaError | None], work: Work
) -> AlterClientQuotasResponse:
    response = AlterClientQuotasResponse()
    for entity, error in results.items():
        await work.give_way()
        told = AlterClientQuotasResponseEntryData(error_message=None)
        told.entity = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        if error is not None:
            told.error_code, told.error_message = error.code, error.message
        work.answer(BYTES + sum(len(kind) + len(name or "") for kind, name in entity))
        response.entries.append(told)
    return response
