"""DescribeUserScramCredentials: which users have which SCRAM mechanisms, and their iterations.

Behavior: an empty list of users, or null, means all users. A user that is named twice, and a user
without credentials, has an error of its own. Salts and keys are never shown.
"""

import heapq
from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from kwire.errors import ErrorCode
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE, once
from kwire.handlers.lib.slices import give_way, in_order, pieces
from kwire.metadata.scram import MECHANISMS, Credentials
from kwire.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

BYTES = 60


RIGHTS = (once(DESCRIBE, every=True),)


async def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    """Describe the users that the request names."""
    known, work = context.broker.image.scram_credentials, context.work
    counts: Counter[str] = Counter()
    for piece in pieces(request.users or []):
        await give_way(work)
        counts.update(user.name for user in piece)
    names: Iterable[str] = counts
    if not counts:
        every = await in_order((user for _, user in known), work)
        names = (name for name, _ in groupby(heapq.merge(*every)))
    response = DescribeUserScramCredentialsResponse(error_message=None)
    for name in names:
        await give_way(work)
        work.answer(BYTES + len(name))
        response.results.append(_described(name, known, is_twice=counts[name] > 1))
    return response


def _described(
    name: str, known: Credentials, *, is_twice: bool
) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=name, error_message=None)
    if is_twice:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
        return result
    result.credential_infos = [
        CredentialInfo(mechanism=number, iterations=known[mechanism, name].iterations)
        for number, mechanism in MECHANISMS.items()
        if (mechanism, name) in known
    ]
    if not result.credential_infos:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
    return result
