"""AlterUserScramCredentials: sets and deletes the credentials of users for SCRAM (KIP-554).

Behavior: each user has its own result. The password itself never reaches the broker, because the
client salts it. UNSUPPORTED_VERSION while the cluster's ``kwire.changes`` is too low.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kwire.budget.work import Work
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.metadata_commits import GivesWay, commit_in_slices
from kwire.handlers.lib.rights import ALTER, CLUSTER, Serve, denied, right
from kwire.handlers.lib.slices import pieces
from kwire.handlers.lib.waiting import in_task, later
from kwire.metadata.changes import Change
from kwire.metadata.features import CHANGES_VERSION, CREDENTIALS_LEVEL
from kwire.metadata.image import MetadataImage
from kwire.metadata.scram import Alteration, Deletion, Upsertion
from kwire.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

BYTES = 80

MOST_USERS = 1000
"""How many users one request may alter."""


@in_task
async def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    """Alter the credentials of every user whose alteration is valid."""
    work = context.work
    results: dict[str, KafkaError | None] = {}
    count = len(request.deletions) + len(request.upsertions)
    work.answer(BYTES * count)

    async def decide(image: MetadataImage, work: GivesWay) -> Sequence[Change]:
        nonlocal results
        if image.feature_level(CHANGES_VERSION) < CREDENTIALS_LEVEL:
            text = f"SCRAM credentials need level {CREDENTIALS_LEVEL} of {CHANGES_VERSION}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        alteration = Alteration(image.scram_credentials)
        for one in asked:
            await work.give_way()
            alteration.decide_next(one)
        results = alteration.results
        return list(alteration.changes.values())

    try:
        if count > MOST_USERS:
            text = f"A request alters at most {MOST_USERS} SCRAM credentials"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
        asked = await _alterations_of(request, work)
        await commit_in_slices(context, decide)
    except KafkaError as error:
        return await refused(request, error, work)
    return await _results(list(results), results.__getitem__, work)


async def _alterations_of(
    request: AlterUserScramCredentialsRequest, work: Work
) -> list[Deletion | Upsertion]:
    asked: list[Deletion | Upsertion] = []
    for one in request.deletions:
        await work.give_way()
        asked.append(Deletion(one.name, one.mechanism))
    for new in request.upsertions:
        await work.give_way()
        parts = new.iterations, new.salt, new.salted_password
        asked.append(Upsertion(new.name, new.mechanism, *parts))
    return asked


async def refused(
    request: AlterUserScramCredentialsRequest, error: KafkaError, work: Work
) -> AlterUserScramCredentialsResponse:
    """The same error for every user that the request names."""
    return await _results(await _names(request, work), lambda _: error, work)


async def _names(request: AlterUserScramCredentialsRequest, work: Work) -> list[str]:
    """Every user that the request names."""
    names: dict[str, None] = {}
    for deletions in pieces(request.deletions):
        await work.give_way()
        names.update((one.name, None) for one in deletions)
    for upsertions in pieces(request.upsertions):
        await work.give_way()
        names.update((one.name, None) for one in upsertions)
    return list(names)


async def _results(
    names: Sequence[str], error_of: Callable[[str], KafkaError | None], work: Work
) -> AlterUserScramCredentialsResponse:
    response = AlterUserScramCredentialsResponse()
    for piece in pieces(names):
        await work.give_way()
        for name in piece:
            result = AlterUserScramCredentialsResult(user=name, error_message=None)
            error = error_of(name)
            if error is not None:
                result.error_code, result.error_message = error.code, error.message
            response.results.append(result)
    return response


@right("ALTER on the cluster")
async def _alter_on_cluster(
    request: AlterUserScramCredentialsRequest, rights: "Authorization", serve: Serve
) -> Any:
    if rights.may_on_cluster(ALTER):
        return await serve(request)
    work = rights.context.work
    work.answer(BYTES * (len(request.deletions) + len(request.upsertions)))
    return await later(lambda: refused(request, denied(CLUSTER), work))


RIGHTS = (_alter_on_cluster,)
