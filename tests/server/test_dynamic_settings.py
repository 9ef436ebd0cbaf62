"""Every setting that may change while the broker runs acts from then on.

A test here does something, changes the setting with IncrementalAlterConfigs, and sees what becomes
of the same thing. ``ELSEWHERE`` names the tests of what takes more than one broker and one topic:
keys and logins, connections, compaction, limits of memory. A setting that is in neither fails
``test_every_dynamic_setting_is_seen_to_act``.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from kwire.config.settings import BROKER, READ_ONLY, settings
from kwire.config.without_effect import has_effect, is_among
from kwire.errors import ErrorCode
from kwire.log.disk import Disk
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.record.batch import LOG_APPEND_TIME
from kwire.record.compression import Compression
from kwire.record.records import ProducerState
from kwire.testing.waiting import until
from tests.support.asking import check, error_of
from tests.support.clock import FakeClock
from tests.support.in_process import RunningServer, running_server
from tests.support.records import batches_in

ROOT = Path(__file__).parents[2]
SET = 0
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
TEXT = b"".join(b"%d, " % (number * number) for number in range(20_000))

ELSEWHERE = {
    "tests/broker/replica/test_fetcher.py": ("num.replica.fetchers",),
    "tests/broker/test_compaction.py": ("log.cleaner.",),
    "tests/broker/test_share_dead_letters.py": ("errors.deadletterqueue.",),
    "tests/client/test_members.py": ("group.consumer.assignment.interval.ms",),
    "tests/config/test_listener_settings.py": ("principal.builder.class", "sasl.", "ssl."),
    "tests/config/test_providers.py": ("config.providers",),
    "tests/connection/test_arriving.py": ("kwire.arriving.max.bytes",),
    "tests/connection/test_buffered_bytes.py": ("kwire.resting.max.bytes",),
    "tests/connection/test_connection_limits.py": (
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
    ),
    "tests/connection/test_connection_rates.py": ("max.connection.creation.rate",),
    "tests/dispatch/test_large_requests.py": ("kwire.request.max.elements",),
    "tests/handlers/test_bombs.py": ("kwire.decompressed.",),
    "tests/handlers/test_cordoned_directories.py": ("cordoned.log.dirs",),
    "tests/handlers/test_replica_fetch.py": ("kwire.fetch.session.cache.max.partitions",),
    "tests/handlers/test_transactions.py": ("transaction.partition.verification.enable",),
    "tests/metadata/test_config_control.py": ("listeners", "listener.security.protocol.map"),
    "tests/metadata/test_lost_replicas.py": ("unclean.leader.election.enable",),
    "tests/server/test_cluster_replicas.py": ("min.insync.replicas",),
    "tests/metrics/test_client_metrics.py": ("kwire.metrics.max.client.series",),
    "tests/metrics/test_exposition.py": ("kwire.metrics.max.",),
    "tests/budget/test_worst_requests.py": (
        "kwire.group.member.max.bytes",
        "kwire.response.max.bytes",
    ),
}
"""By file, the settings or the beginnings of their names; new listeners are refused there."""


FROM_THE_FILE = {"num.recovery.threads.per.data.dir"}
"""What Kafka lets change and what kwire reads only at its start, as its text says."""


class _CountingDisk(Disk):
    """A disk that counts how often the file of a segment was synced."""

    def __init__(self) -> None:
        self.syncs = 0

    def sync(self, fd: int) -> None:
        """Count, and sync."""
        self.syncs += os.readlink(f"/proc/self/fd/{fd}").endswith(".log")
        super().sync(fd)


class Running:
    """A running server with the topic ``t``, whose time passes only by ``clock``."""

    def __init__(self, server: RunningServer, clock: FakeClock, disk: _CountingDisk) -> None:
        self.server = server
        self.clock = clock
        self.disk = disk

    async def set_all(self, **configs: object) -> None:
        """Set configs of all brokers: ``log_roll_ms`` is log.roll.ms."""
        changed = [
            AlterableConfig(name=name.replace("_", "."), config_operation=SET, value=str(value))
            for name, value in configs.items()
        ]
        resource = AlterConfigsResource(
            resource_type=ConfigResourceType.BROKER, resource_name="", configs=changed
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = await self.server.request(request, 1, IncrementalAlterConfigsResponse)
        check(answer.responses[0].error_code, answer.responses[0].error_message)

    async def error(self, *values: bytes, **fields: object) -> ErrorCode:
        """What the broker says to a batch, whose records are from now if no other time is given."""
        fields.setdefault("timestamp", self.clock.date_ms)
        return await error_of(self.server.produce("t", *values, **fields))

    async def stored_bytes(self, *values: bytes) -> int:
        """The size of a batch as it is stored."""
        offset = await self.server.end_offset("t")
        assert await self.error(*values) is ErrorCode.NONE
        found = await self.server.fetch("t", offset, max_bytes=1 << 24)
        return batches_in(found.records)[0].size_bytes

    def files(self, suffix: str) -> list[Path]:
        """The files of the topic's partition whose names end so."""
        directory = self.server.broker.partition("t", 0).log.directory
        return sorted(path for path in directory.iterdir() if path.name.endswith(suffix))

    async def keep_house(self) -> None:
        """What the broker does of itself at this time."""
        await self.server.server.housekeeping.tick()
        await self.server.server.housekeeping.retain()
        await self.server.server.housekeeping.keep_house()


Check = Callable[[Running], Awaitable[None]]
CHECKS: dict[str, Check] = {}


def acts(*names: str) -> Callable[[Check], Check]:
    """Say which settings a check sees acting."""

    def noted(check: Check) -> Check:
        CHECKS.update(dict.fromkeys(names, check))
        return check

    return noted


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    """A running server."""
    clock, disk = FakeClock(), _CountingDisk()
    async with running_server(tmp_path, {"log.retention.ms": "-1"}, disk, clock) as server:
        await server.topic("t")
        yield Running(server, clock, disk)


@acts("message.max.bytes")
async def larger_batches_are_refused(running: Running) -> None:
    assert await running.error(bytes(2000)) is ErrorCode.NONE
    await running.set_all(message_max_bytes=1000)
    assert await running.error(bytes(2000)) is ErrorCode.MESSAGE_TOO_LARGE


@acts("max.decompressed.message.bytes")
async def larger_records_of_compressed_batches_are_refused(running: Running) -> None:
    assert await running.error(bytes(2000), compression=Compression.GZIP) is ErrorCode.NONE
    await running.set_all(max_decompressed_message_bytes=1000)
    code = await running.error(bytes(2000), compression=Compression.GZIP)
    assert code is ErrorCode.INVALID_RECORD


@acts("compression.type")
async def batches_get_the_codec(running: Running) -> None:
    before = await running.stored_bytes(TEXT)
    await running.set_all(compression_type="lz4")
    assert await running.stored_bytes(TEXT) < before


@acts("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")
async def batches_get_the_level(running: Running) -> None:
    for codec, least, most in (("gzip", 1, 9), ("lz4", 1, 17), ("zstd", 1, 19)):
        sizes = []
        for level in (least, most):
            name = f"compression_{codec}_level"
            await running.set_all(compression_type=codec, **{name: level})
            sizes.append(await running.stored_bytes(TEXT))
        assert sizes[1] < sizes[0], codec


@acts("log.message.timestamp.type")
async def batches_get_the_time_of_the_append(running: Running) -> None:
    assert await running.error(b"v") is ErrorCode.NONE
    await running.set_all(log_message_timestamp_type="LogAppendTime")
    assert await running.error(b"v") is ErrorCode.NONE
    stored = batches_in((await running.server.fetch("t")).records)
    assert [one.timestamp_type == LOG_APPEND_TIME for one in stored] == [False, True]


@acts("log.message.timestamp.before.max.ms", "log.message.timestamp.after.max.ms")
async def other_times_are_refused(running: Running) -> None:
    now_ms = running.clock.date_ms
    times = (now_ms - MINUTE_MS, now_ms + MINUTE_MS)
    for timestamp in times:
        assert await running.error(b"v", timestamp=timestamp) is ErrorCode.NONE
    limits = {"before": SECOND_MS, "after": SECOND_MS}
    for (side, limit), timestamp in zip(limits.items(), times, strict=True):
        await running.set_all(**{f"log_message_timestamp_{side}_max_ms": limit})
        code = await running.error(b"v", timestamp=timestamp)
        assert code is ErrorCode.INVALID_TIMESTAMP, side


@acts("log.cleanup.policy")
async def records_without_a_key_are_refused(running: Running) -> None:
    assert await running.error(b"v") is ErrorCode.NONE
    await running.set_all(log_cleanup_policy="compact")
    assert await running.error(b"v") is ErrorCode.INVALID_RECORD


@acts("log.segment.bytes")
async def segments_end_at_this_size(running: Running) -> None:
    await running.set_all(log_segment_bytes=1 << 20)
    for _ in range(3):
        await running.error(bytes(600_000))
    assert len(running.files(".log")) == 3


@acts("log.roll.ms")
async def segments_end_at_this_age(running: Running) -> None:
    await running.error(b"v")
    running.clock.pass_time(HOUR_MS)
    await running.error(b"v")
    assert len(running.files(".log")) == 1
    await running.set_all(log_roll_ms=HOUR_MS // 2)
    await running.error(b"v")
    assert len(running.files(".log")) == 2


@acts("log.roll.jitter.ms")
async def segments_may_end_earlier(running: Running) -> None:
    await running.set_all(log_roll_ms=HOUR_MS)
    await running.error(b"v")
    running.clock.pass_time(HOUR_MS - 1)
    await running.error(b"v")
    assert len(running.files(".log")) == 1
    await running.set_all(log_roll_jitter_ms=HOUR_MS)
    rolled = 0
    for _ in range(20):  # each segment has a random part of an hour less
        running.clock.pass_time(HOUR_MS - 1)
        await running.error(b"v")
        rolled = len(running.files(".log"))
    assert rolled > 5


@acts("log.index.interval.bytes", "log.index.size.max.bytes")
async def the_index_of_a_new_segment_has_more_entries_and_ends_it(running: Running) -> None:
    await running.set_all(log_segment_bytes=1 << 20)
    for value in (bytes(600_000), bytes(600_000), *[b"v"] * 40):
        await running.error(value)
    assert len(running.files(".log")) == 2
    await running.set_all(log_index_interval_bytes=0, log_index_size_max_bytes=80)
    for value in (bytes(600_000), bytes(600_000), *[b"v"] * 40):
        await running.error(value)
    assert len(running.files(".log")) > 6


@acts("log.retention.bytes")
async def old_segments_go_by_size(running: Running) -> None:
    await running.set_all(log_segment_bytes=1 << 20)
    for _ in range(4):
        await running.error(bytes(600_000))
    running.clock.pass_time(HOUR_MS)
    await running.keep_house()
    assert await running.server.start_offset("t") == 0
    await running.set_all(log_retention_bytes=1_100_000)
    running.clock.pass_time(HOUR_MS)
    await running.keep_house()
    assert await running.server.start_offset("t") == 2


@acts("log.retention.ms", "log.segment.delete.delay.ms")
async def old_records_go_and_their_files_after_a_while(running: Running) -> None:
    await running.error(b"v")
    running.clock.pass_time(HOUR_MS)
    await running.keep_house()
    assert await running.server.start_offset("t") == 0
    await running.set_all(log_retention_ms=MINUTE_MS, log_segment_delete_delay_ms=HOUR_MS)
    running.clock.pass_time(HOUR_MS)
    await running.keep_house()
    assert await running.server.start_offset("t") == 1
    running.clock.pass_time(HOUR_MS - 1)
    await running.keep_house()
    assert running.files(".deleted")
    running.clock.pass_time(1)
    await running.keep_house()
    assert not running.files(".deleted")


@acts("log.flush.interval.messages")
async def each_record_is_flushed(running: Running) -> None:
    await running.error(b"v")
    before = running.disk.syncs
    await running.error(b"v")
    assert running.disk.syncs == before
    await running.set_all(log_flush_interval_messages=1)
    before = running.disk.syncs
    await running.error(b"v")
    assert running.disk.syncs > before


@acts("log.flush.interval.ms")
async def records_are_flushed_in_time(running: Running) -> None:
    for is_set in (False, True):
        if is_set:
            await running.set_all(log_flush_interval_ms=SECOND_MS)
            await running.keep_house()
        before = running.disk.syncs
        await running.error(b"v")
        running.clock.pass_time(2 * SECOND_MS)
        await running.keep_house()
        if is_set:
            await until(lambda before=before: running.disk.syncs > before)
        assert (running.disk.syncs > before) is is_set


async def _producers(running: Running) -> int:
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    answer = await running.server.request(request, 0, DescribeProducersResponse)
    return len(answer.topics[0].partitions[0].active_producers)


@acts("producer.id.expiration.ms")
async def producers_are_forgotten(running: Running) -> None:
    await running.error(b"v", producer=ProducerState(7, 0, 0))
    running.clock.pass_time(HOUR_MS)
    await running.keep_house()
    assert await _producers(running) == 1
    await running.set_all(producer_id_expiration_ms=MINUTE_MS)
    running.clock.pass_time(HOUR_MS)
    await running.keep_house()
    assert await _producers(running) == 0


@acts("kwire.producer.ids.max", "kwire.producer.ids.max.per.partition")
async def only_so_many_producers_are_remembered(running: Running) -> None:
    for producer_id in range(5):
        await running.error(b"v", producer=ProducerState(producer_id, 0, 0))
    assert await _producers(running) == 5
    await running.set_all(kwire_producer_ids_max_per_partition=3)
    await running.error(b"v", producer=ProducerState(9, 0, 0))
    assert await _producers(running) == 3
    await running.set_all(kwire_producer_ids_max=2)
    await running.error(b"v", producer=ProducerState(10, 0, 0))
    await running.keep_house()
    assert await _producers(running) == 2


@acts("group.share.assignment.interval.ms")
async def assignments_of_share_groups_have_another_interval(running: Running) -> None:
    settings_of = running.server.broker.groups.surroundings.share_settings_of
    assert settings_of("g").assignment_interval_ms == SECOND_MS
    await running.set_all(group_share_assignment_interval_ms=2 * SECOND_MS)
    assert settings_of("g").assignment_interval_ms == 2 * SECOND_MS


@acts("group.streams.assignment.interval.ms")
async def assignments_of_streams_groups_have_another_interval(running: Running) -> None:
    settings_of = running.server.broker.groups.surroundings.streams_settings_of
    assert settings_of("g").assignment_interval_ms == SECOND_MS
    await running.set_all(group_streams_assignment_interval_ms=2 * SECOND_MS)
    assert settings_of("g").assignment_interval_ms == 2 * SECOND_MS


@acts("kwire.large.requests.max.bytes")
async def large_requests_share_another_room(running: Running) -> None:
    room = running.server.server.poller.turns.large
    assert room.max_bytes() == 32 << 20
    await running.set_all(kwire_large_requests_max_bytes=64 << 20)
    assert room.max_bytes() == 64 << 20


@pytest.mark.parametrize("name", sorted(CHECKS))
async def test_a_change_acts(running: Running, name: str) -> None:
    """On a topic that is there and has records."""
    await CHECKS[name](running)


def test_every_dynamic_setting_is_seen_to_act() -> None:
    """Here, or in the file that is named, which knows it."""
    dynamic = {
        name
        for name, setting in settings(BROKER).items()
        if setting.mode != READ_ONLY and has_effect(BROKER, name)
    }
    for file, names in ELSEWHERE.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not [name for name in names if name not in text], file
    elsewhere = tuple(name for names in ELSEWHERE.values() for name in names)
    seen = {name for name in dynamic if is_among(name, elsewhere)}
    assert not seen & CHECKS.keys()
    assert sorted(dynamic - CHECKS.keys() - seen - FROM_THE_FILE) == []
