"""Rights on schemas: those of their topic, or of the cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from kwire.registry.rights import Right, question
from tests.registry.test_logins import USERS, url_of
from tests.registry.test_serving import fixed
from tests.support.in_process import RunningServer, running_server

SETTINGS = {
    **USERS,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS;User:alice",
}
ALICE, BOB = ("alice", "hush"), ("bob", "geheim")
TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER


@asynccontextmanager
async def secured(data_dir: Path) -> AsyncIterator[tuple[RunningServer, httpx.AsyncClient]]:
    """A registry with an authorizer, in which alice may do everything."""
    async with (
        running_server(data_dir, SETTINGS) as running,
        httpx.AsyncClient(base_url=url_of(running), timeout=30) as client,
    ):
        for subject in ("a-value", "b-value", "c.Record"):
            body = fixed(subject.replace("-", "_"))
            await client.post(f"/subjects/{subject}/versions", json=body, auth=ALICE)
        yield running, client


async def allow(
    running: RunningServer, operation: AclOperation, kind: ResourceType, name: str
) -> None:
    """Allow bob something."""
    creation = AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=3,
        principal="User:bob",
        host="*",
        operation=operation,
        permission_type=3,
    )
    answer = await running.request(CreateAclsRequest(creations=[creation]), 3, CreateAclsResponse)
    assert answer.results[0].error_code == 0, answer.results[0].error_message


async def test_a_user_sees_the_schemas_of_its_topics(tmp_path: Path) -> None:
    """In lists, by their ids, and by name; other subjects are denied, missing ones too."""
    async with secured(tmp_path) as (running, client):

        async def seen(path: str) -> Any:
            answer = await client.get(path, auth=BOB)
            return answer.json() if answer.status_code == 200 else answer.json()["error_code"]

        assert await seen("/subjects") == []
        assert await seen("/schemas/ids/1") == 40301
        await allow(running, AclOperation.READ, TOPIC, "a")
        assert await seen("/subjects") == ["a-value"]
        assert [one["subject"] for one in await seen("/schemas")] == ["a-value"]
        assert (await seen("/schemas/ids/1"))["schema"]
        assert await seen("/schemas/ids/1/subjects") == ["a-value"]
        assert await seen("/schemas/ids/1/versions") == [{"subject": "a-value", "version": 1}]
        assert await seen("/schemas/ids/2") == 40301
        assert await seen("/schemas/ids/9") == 40403
        assert (await seen("/subjects/a-value/versions/1"))["id"] == 1
        assert await seen("/subjects/a-key/versions") == 40401
        for path in ("/subjects/b-value/versions", "/subjects/c.Record/versions/1", "/config"):
            assert await seen(path) == 40301
        assert await seen("/contexts/.other/subjects/b-value/versions") == 40301
        assert await seen("/contexts") == 40301
        await allow(running, AclOperation.DESCRIBE, CLUSTER, "kafka-cluster")
        assert await seen("/subjects") == ["a-value", "c.Record"]
        assert await seen("/contexts") == ["."]


async def test_changes_need_their_own_rights(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of them, and to read what a schema refers to; the audit log says what is missing."""
    async with secured(tmp_path) as (running, client):

        async def changed(method: str, path: str, body: object = None) -> int:
            return (await client.request(method, path, json=body, auth=BOB)).status_code

        refers = fixed("R") | {
            "references": [{"name": "b_value", "subject": "b-value", "version": 1}]
        }
        delete = ("DELETE", "/subjects/a-value")
        level = ("PUT", "/config/a-value", {"compatibility": "NONE"})
        mode = ("PUT", "/mode/a-value", {"mode": "READONLY"})
        register = ("POST", "/subjects/a-value/versions", fixed("a_value"))
        with_reference = ("POST", "/subjects/a-key/versions", refers)
        with caplog.at_level("INFO", "kwire.authorizer"):
            for one in (delete, level, mode, register, with_reference):
                assert await changed(*one) == 403
        assert "SchemaRegistry" in caplog.text
        await allow(running, AclOperation.WRITE, TOPIC, "a")
        assert await changed(*register) == 200
        assert await changed(*with_reference) == 403
        await allow(running, AclOperation.DESCRIBE, TOPIC, "b")
        assert await changed(*with_reference) == 200
        for operation, one in (
            (AclOperation.ALTER_CONFIGS, level),
            (AclOperation.DELETE, ("DELETE", "/subjects/a-key")),
        ):
            assert await changed(*one) == 403
            await allow(running, operation, TOPIC, "a")
            assert await changed(*one) == 200
        assert await changed(*mode) == 403
        await allow(running, AclOperation.ALTER, CLUSTER, "kafka-cluster")
        assert await changed(*mode) == 200


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        *(("orders-value", "orders"), ("orders-key", "orders"), (":.c:orders-value", "orders")),
        *(("a-value-key", "a-value"), ("-value", ""), ("orders", ""), ("com.acme.Order", "")),
        ("", ""),
    ],
)
def test_whose_rights_count(subject: str, name: str) -> None:
    """The topic's that the subject names, else the cluster's."""
    _, kind, found = question(Right.REGISTER, subject)
    assert (kind, found) == ((TOPIC, name) if name else (CLUSTER, "kafka-cluster"))
