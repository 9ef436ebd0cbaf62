"""The changes that an administrator makes over HTTP, each a request to the broker's own handler.

The only changes are: create or delete a topic, set or unset a setting of a topic, write a record,
delete records, reset the offsets of a group without members. Each change is written to the broker's
log.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import trio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kwire.client.partitioner import partition_of_key
from kwire.errors import ErrorCode
from kwire.metadata.config_control import Operation
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.protocol.types import Request as KafkaRequest
from kwire.record.records import BatchBuilder
from kwire.web.cross_loop_calls import Observed
from kwire.web.page.admin import checked_form
from kwire.web.page.asking import ask_broker
from kwire.web.page.resetting import Reset, commit, plan
from kwire.web.page.sessions import Admin
from kwire.web.page.site import PageError, Site

log = logging.getLogger(__name__)

TIMEOUT_MS = 30_000
SHOWN = 100
MAX_NAME_BYTES = 32767
_PRODUCE_VERSION = 11
"""The last version that names topics, and doesn't begin transactions."""


class Change(NamedTuple):
    """One requested change: its form, and the client that sent it."""

    site: Site
    request: Request
    fields: dict[str, str]
    host: str

    def text(self, name: str) -> str:
        """A field that must not be empty; PageError."""
        value = self.fields.get(name, "").strip()
        if not value:
            raise PageError(400, f"the field {name} is empty")
        if len(value.encode()) > MAX_NAME_BYTES:
            raise PageError(400, f"the field {name} is longer than {MAX_NAME_BYTES} bytes")
        return value

    def whole(self, name: str, default: int | None = None) -> int:
        """A field that is a whole number; PageError."""
        text = self.fields.get(name, "").strip()
        if not text and default is not None:
            return default
        if not text.removeprefix("-").isdecimal() or len(text) > 19:
            raise PageError(400, f"the field {name} must be a whole number, not {text[:40]!r}")
        return int(text)

    async def ask(self, request: KafkaRequest, version: int) -> Any:
        """The broker's response; NotServing if the change takes long, but the change goes on."""
        return await self.site.broker_calls.run(_carry_out, request, version, self.host)

    def done(self, what: str, address: str, note: str) -> Response:
        """Log the change, and lead the browser to a page that says that it is done."""
        log.warning("HTTP: the administrator at %s has %s", self.host, what)
        separator = "&" if "?" in address else "?"
        return RedirectResponse(f"{address}{separator}{urlencode({'done': note})}", 303)


async def _carry_out(
    observed: Observed, request: KafkaRequest, version: int, peer_host: str
) -> Any:
    """Call ``ask_broker`` for a change, and never cancel it halfway."""
    with trio.CancelScope(shield=True):
        return await ask_broker(observed, request, version, peer_host)


def routes(site: Site, admin: Admin) -> list[Route]:
    """The routes of the changes."""

    def route(path: str, apply: Callable[[Change], Awaitable[Response]]) -> Route:
        async def answer(request: Request) -> Response:
            fields = await checked_form(admin, request)
            host = request.client.host if request.client else "127.0.0.1"
            return await apply(Change(site, request, fields, host))

        return site.route(path, answer, ("POST",))

    return [
        route("/admin/topics/create", create_topic),
        route("/admin/topics/delete", delete_topic),
        route("/admin/topics/set", set_config),
        route("/admin/records/produce", produce_record),
        route("/admin/records/delete", delete_records),
        route("/admin/groups/reset", reset_offsets),
    ]


def _check(code: int, message: str | None) -> None:
    """Raise PageError for the error code of a response."""
    if code:
        name = ErrorCode(code).name
        raise PageError(409, f"the broker refuses: {message} ({name})" if message else name)


def _address(topic: str) -> str:
    return f"/topics/{quote(topic, safe='')}"


async def create_topic(change: Change) -> Response:
    """Create a topic, perhaps with settings: a line ``name=value`` for each."""
    name = change.text("name")
    topic = CreatableTopic(
        name=name,
        num_partitions=change.whole("partitions", -1),
        replication_factor=change.whole("replicas", -1),
        configs=[
            CreatableTopicConfig(name=config.strip(), value=value.strip())
            for config, value in _pairs(change.fields.get("configs", ""), "a setting")
        ],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
    [result] = (await change.ask(request, 7)).topics
    _check(result.error_code, result.error_message)
    return change.done(f"created the topic {name!r}", _address(name), "created")


def _confirmed(change: Change, name: str) -> None:
    """Raise PageError unless the administrator has typed the name once more."""
    if change.fields.get("confirm", "").strip() != name:
        raise PageError(400, f"to confirm, type the name {name} into the field beside the button")


async def delete_topic(change: Change) -> Response:
    """Delete a topic."""
    name = change.text("topic")
    _confirmed(change, name)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS)
    [result] = (await change.ask(request, 6)).responses
    _check(result.error_code, result.error_message)
    return change.done(f"deleted the topic {name!r}", "/topics", "deleted")


async def set_config(change: Change) -> Response:
    """Set a setting of a topic; unset it if the form says so."""
    topic, name = change.text("topic"), change.text("name")
    unset = change.fields.get("unset") == "yes"
    value = None if unset else change.fields.get("value", "").strip()
    operation = Operation.DELETE if unset else Operation.SET
    resource = AlterConfigsResource(
        resource_type=ConfigResourceType.TOPIC,
        resource_name=topic,
        configs=[AlterableConfig(name=name, config_operation=operation, value=value)],
    )
    answer = await change.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    _check(answer.responses[0].error_code, answer.responses[0].error_message)
    what = f"unset {name}" if unset else f"set {name}={value}"
    return change.done(f"{what} of the topic {topic!r}", _address(topic), "changed")


async def produce_record(change: Change) -> Response:
    """Write one record to its leader: to a partition, or to that of its key, or to any."""
    name = change.text("topic")
    key = change.fields.get("key", "").encode() or None
    value = _lines(change.fields.get("value", "")).encode()
    index = change.whole("partition", -1)
    if index < 0:
        count = await change.site.broker_calls.run(_partitions_of, name)
        index = secrets.randbelow(count) if key is None else partition_of_key(key, count)
    builder = BatchBuilder()
    builder.add(
        await change.site.broker_calls.run(_now_ms),
        key,
        None if change.fields.get("null") == "yes" else value,
        tuple(
            (header.strip(), content.strip().encode())
            for header, content in _pairs(change.fields.get("headers", ""), "a header")
        ),
    )
    batch = memoryview(bytearray(builder.build()))  # the broker writes its offset into it
    data = PartitionProduceData(index=index, records=batch)
    request = ProduceRequest(
        acks=1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(name=name, partition_data=[data])],
    )
    answer = await change.ask(request, _PRODUCE_VERSION)
    result = answer.responses[0].partition_responses[0]
    _check(result.error_code, result.error_message)
    offset = result.base_offset
    what = f"written a record to {name!r}, partition {index}, offset {offset}"
    query = urlencode({"topic": name, "partition": index, "offset": offset, "count": 1})
    return change.done(what, f"/records?{query}", "produced")


async def _partitions_of(observed: Observed, topic: str) -> int:
    """The number of a topic's partitions, in the broker's event loop; PageError."""
    image = observed.broker.image.topics_by_name.get(topic)
    if image is None:
        raise PageError(404, f"there is no topic {topic}")
    return len(image.partitions)


async def _now_ms(observed: Observed) -> int:
    return observed.broker.now_ms()


def _lines(text: str) -> str:
    """A text as it was typed: forms end lines with CR and LF."""
    return text.replace("\r\n", "\n")


def _pairs(text: str, what: str) -> Iterator[tuple[str, str]]:
    """The lines ``name=value`` of a field; PageError."""
    for line in text.splitlines():
        if line.strip():
            name, separator, value = line.partition("=")
            if not separator:
                raise PageError(400, f"write {what} as name=value, not {line[:80]!r}")
            yield name, value


async def delete_records(change: Change) -> Response:
    """Delete the records of a partition before an offset."""
    topic, index, offset = change.text("topic"), change.whole("partition"), change.whole("offset")
    _confirmed(change, topic)
    partition = DeleteRecordsPartition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=TIMEOUT_MS
    )
    answer = await change.ask(request, 2)
    _check(answer.topics[0].partitions[0].error_code, None)
    what = f"deleted the records of {topic!r}, partition {index}, before offset {offset}"
    return change.done(what, _address(topic), "records")


async def reset_offsets(change: Change) -> Response:
    """Show the new offsets of a group; set them once the administrator has confirmed them."""
    reset = Reset(
        change.text("group"),
        change.text("topic"),
        change.whole("partition", -1),
        change.text("to"),
        change.fields.get("value", "").strip(),
    )
    moves = await change.site.broker_calls.run(plan, reset, change.host)
    if change.fields.get("confirm") != "yes":
        return change.site.render(
            change.request,
            "reset.html",
            title="Reset offsets",
            reset=reset,
            moves=moves[:SHOWN],
            count=len(moves),
        )
    await change.site.broker_calls.run(commit, reset, moves, change.host)
    what = f"reset {len(moves)} offsets of the group {reset.group_id!r} to {reset.to}"
    address = f"/group?{urlencode({'id': reset.group_id})}"
    return change.done(f"{what} {reset.value}".rstrip(), address, "reset")
