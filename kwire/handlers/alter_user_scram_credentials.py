"""AlterUserScramCredentials: sets and deletes the credentials of users for SCRAM (KIP-554).

Behaviour: each user has its own result. The password itself never comes to the broker: the client
has salted it. UNSUPPORTED_VERSION while the cluster's ``kwire.changes`` is too low.
"""

from collections.abc import Sequence

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.context import RequestContext
from kwire.metadata.changes import Change
from kwire.metadata.features import CHANGES_VERSION, CREDENTIALS_LEVEL
from kwire.metadata.image import MetadataImage
from kwire.metadata.scram import Deletion, Upsertion, alter
from kwire.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

UNITS = 20
MOST_USERS = 1000
"""How many users one request may alter."""


async def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    """Alter the credentials of every user that may be altered so."""
    deletions = [Deletion(one.name, one.mechanism) for one in request.deletions]
    upsertions = [
        Upsertion(one.name, one.mechanism, one.iterations, one.salt, one.salted_password)
        for one in request.upsertions
    ]
    results: dict[str, KafkaError | None] = {}

    def decide(image: MetadataImage) -> Sequence[Change]:
        nonlocal results
        if image.feature_level(CHANGES_VERSION) < CREDENTIALS_LEVEL:
            text = f"SCRAM credentials need level {CREDENTIALS_LEVEL} of {CHANGES_VERSION}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        changes, results = alter(image.scram_credentials, deletions, upsertions)
        return changes

    names = dict.fromkeys([one.user for one in deletions] + [one.user for one in upsertions])
    if context.work.spend(UNITS * len(names)):
        await context.work.next_slice()
    try:
        if len(deletions) + len(upsertions) > MOST_USERS:
            text = f"A request alters at most {MOST_USERS} SCRAM credentials"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
        await context.commit(decide)
    except KafkaError as error:
        results = dict.fromkeys(names, error)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=name,
                error_code=error.code if error else ErrorCode.NONE,
                error_message=error.message if error else None,
            )
            for name, error in results.items()
        ]
    )
