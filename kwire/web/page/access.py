"""``/access``: users with SCRAM credentials, ACLs, and client quotas.

The broker's own handlers answer, so behind an authorizer the page shows what its principal may see.
"""

from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kwire.errors import ErrorCode
from kwire.metadata.acls import AclOperation, PatternType, Permission, ResourceType
from kwire.metadata.scram import MECHANISMS
from kwire.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kwire.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kwire.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kwire.web.cross_loop_calls import Observed
from kwire.web.page.asking import ask_broker
from kwire.web.page.paging import paged
from kwire.web.page.site import Site

SHOWN = 100

ANY_ACL = DescribeAclsRequest(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter=None,
    pattern_type_filter=PatternType.ANY,
    principal_filter=None,
    host_filter=None,
    operation=AclOperation.ANY,
    permission_type=Permission.ANY,
)
_MATCHES_EVERYTHING = DescribeClientQuotasRequest(components=[], strict=False)


class AclRow(NamedTuple):
    """One ACL in words."""

    principal: str
    permission: str
    operation: str
    resource: str
    name: str
    host: str


class QuotaRow(NamedTuple):
    """The quotas of an entity: its parts, whose name is None for the default, and its values."""

    entity: list[tuple[str, str | None]]
    values: list[tuple[str, float]]


class Answers(NamedTuple):
    """The broker's responses."""

    users: DescribeUserScramCredentialsResponse
    acls: DescribeAclsResponse
    quotas: DescribeClientQuotasResponse


def routes(site: Site) -> list[Route]:
    """The routes of this view."""

    async def access(request: Request) -> Response:
        answers = await site.broker_calls.run(gather)
        acls, quotas, users = _acls(answers.acls), _quotas(answers.quotas), _users(answers.users)
        return site.render(
            request,
            "access.html",
            title="Access",
            problems={name: _problem(answer) for name, answer in answers._asdict().items()},
            users=users[:SHOWN],
            users_count=len(users),
            quotas=quotas[:SHOWN],
            quotas_count=len(quotas),
            page=paged(request, acls, lambda acl: f"{acl.principal} {acl.name}"),
        )

    return [site.route("/access", access)]


async def gather(observed: Observed) -> Answers:
    """The responses, in the broker's event loop; AnswerTooLarge."""
    everybody = DescribeUserScramCredentialsRequest(users=None)
    return Answers(
        await ask_broker(observed, everybody, 0),
        await ask_broker(observed, ANY_ACL, 3),
        await ask_broker(observed, _MATCHES_EVERYTHING, 1),
    )


def _problem(answer: Any) -> str:
    """Why a part is missing; empty if it isn't."""
    if not answer.error_code:
        return ""
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return "The broker has no authorizer: every client may do everything."
    return f"The page may not see this ({ErrorCode(answer.error_code).name})."


def _users(answer: DescribeUserScramCredentialsResponse) -> list[tuple[str, list[str]]]:
    """The users by name, with their credentials."""
    return sorted(
        (
            one.user,
            [
                f"{MECHANISMS.get(info.mechanism, '?')}, {info.iterations:,} iterations"
                for info in one.credential_infos
            ],
        )
        for one in answer.results
    )


def _acls(answer: DescribeAclsResponse) -> list[AclRow]:
    """The ACLs by principal; a name that ends with ``*`` is a prefix."""
    return sorted(
        AclRow(
            acl.principal,
            Permission(acl.permission_type).name.lower(),
            AclOperation(acl.operation).name,
            ResourceType(found.resource_type).name.lower().replace("_", " "),
            found.resource_name + "*" * (found.pattern_type == PatternType.PREFIXED),
            acl.host,
        )
        for found in answer.resources
        for acl in found.acls
    )


def _quotas(answer: DescribeClientQuotasResponse) -> list[QuotaRow]:
    """The quotas in the broker's order."""
    return [
        QuotaRow(
            [(part.entity_type, part.entity_name) for part in entry.entity],
            [(value.key, value.value) for value in entry.values],
        )
        for entry in answer.entries or []
    ]
