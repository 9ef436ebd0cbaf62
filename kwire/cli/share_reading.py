"""``kwire share consume``: prints the records of a queue, or gives each of them to a command.

Rules:

- A printed record is accepted when it has been written. A record that a command has got is
  accepted, released or rejected by the command's exit code (``OUTCOMES``).
- Records are acquired as many as there are workers, and acknowledged together. So a program that
  dies loses no more than these, and they are delivered again.
- While commands run, the locks of their records are renewed (KIP-1222), if the group allows it. If
  not, or if a broker can't, a command that takes longer than the lock shares its record with
  another worker, and kwire says so once.
- What is acquired and not dealt with at the end, as after Ctrl-C, is available again at once.
- A command that can't run ends the program: it would use up the deliveries of every record.
"""

import argparse
import os
import sys
from collections import Counter

import trio

from kwire.cli.output import CommandError
from kwire.cli.positions import partitions_of_topics
from kwire.cli.printing import Printer
from kwire.client.cluster import Cluster
from kwire.client.configs import Resource, ResourceType, describe_configs
from kwire.client.errors import ClientError
from kwire.client.offsets import ends_of, starts_of
from kwire.client.share_groups import share_offsets
from kwire.client.share_member import (
    ACCEPT,
    REJECT,
    RELEASE,
    Delivery,
    ShareMember,
    open_share_member,
)
from kwire.errors import KafkaError

OFFSET_RESET = "share.auto.offset.reset"

AT_ONCE = 500
"""So many records are acquired at a time for printing; ``max.poll.records`` of Kafka's consumer."""

RENEWALS_PER_LOCK = 3
"""So often locks are renewed within the time that they last."""

EMPTY_FETCHES = 2
"""``--exit`` ends after so many fetches without a record."""

LAST_ACKNOWLEDGEMENT_S = 5.0
MAX_KEY_BYTES = 32 * 1024
EXIT_ACCEPT, EXIT_REJECT = 0, 65
CANNOT_RUN = (126, 127)
"""What a shell answers if it can't run a command, or finds none."""

_DONE = {ACCEPT: "accepted", RELEASE: "released", REJECT: "rejected"}


async def consume(cluster: Cluster, options: argparse.Namespace, printer: Printer) -> int:
    """Consume until the end that the options ask for; returns the exit code."""
    counts: Counter[str] = Counter()
    left = options.count
    empty = 0
    await _tell_of_the_end(cluster, options.group, options.topics)
    try:
        async with open_share_member(cluster, options.group, options.topics) as member:
            while left is None or left > 0:
                most = options.workers if options.exec else AT_ONCE
                found = await member.fetch(most if left is None else min(most, left))
                if not found:
                    empty += bool(member.partitions)
                    if options.exit and empty >= EMPTY_FETCHES:
                        break
                    continue
                empty = 0
                some = found if left is None else found[:left]
                if left is not None:
                    left -= len(some)
                await _deal_with(member, some, options, printer, counts)
    finally:
        if options.exec:
            told = ", ".join(f"{counts[name]} {name}" for name in _DONE.values())
            print(f"kwire: {told}", file=sys.stderr)
    return 0


async def _tell_of_the_end(cluster: Cluster, group: str, topics: list[str]) -> None:
    """Say of which topics a group without start offsets leaves the present records out.

    Nothing is said if that can't be found out, as without the right to read the group's configs.
    """
    try:
        if await share_offsets(cluster, group):
            return
        resource = Resource(ResourceType.GROUP, group)
        for told in await describe_configs(cluster, resource, [OFFSET_RESET]):
            if told.value != "latest":
                return
        partitions = await partitions_of_topics(cluster, topics)
        starts, ends = await starts_of(cluster, partitions), await ends_of(cluster, partitions)
    except (ClientError, KafkaError):
        return
    skipped = sorted({one.topic for one in partitions if starts[one] < ends[one]})
    if skipped:
        print(
            f"kwire: {group} begins at the end of {', '.join(skipped)}; to read from the start, "
            f"end its members and run: kwire share reset {group} --to-beginning",
            file=sys.stderr,
        )


async def _deal_with(
    member: ShareMember,
    found: list[Delivery],
    options: argparse.Namespace,
    printer: Printer,
    counts: "Counter[str]",
) -> None:
    """Deal with records, and acknowledge those that are dealt with, also after Ctrl-C."""
    outcomes: dict[Delivery, int] = {}
    try:
        if options.exec:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_renew, member, found)
                await _run_commands(options.exec, options.workers, found, outcomes)
                nursery.cancel_scope.cancel()
        else:
            await _print(printer, found, outcomes)
    finally:
        with trio.move_on_after(LAST_ACKNOWLEDGEMENT_S) as scope:
            scope.shield = True
            errors = await member.acknowledge(outcomes)
            for one, error in errors.items():
                text = f"{one.partition} offset {one.record.offset} will be delivered again"
                print(f"kwire: {text}: {error.message or ''} {error.code.name}", file=sys.stderr)
            counts.update(_DONE[kind] for one, kind in outcomes.items() if one not in errors)


async def _renew(member: ShareMember, found: list[Delivery]) -> None:
    """Renew the locks of records again and again, until cancelled or refused."""
    while True:
        await trio.sleep(member.lock_s / RENEWALS_PER_LOCK)
        with trio.CancelScope(shield=True):  # each request has its answer before the next one
            errors = await member.renew(found)
        if errors:
            one, error = next(iter(errors.items()))
            text = f"{one.partition} offset {one.record.offset}: the lock can't be renewed"
            print(f"kwire: {text}: {error.message or ''} {error.code.name}", file=sys.stderr)
            return


async def _print(printer: Printer, found: list[Delivery], outcomes: dict[Delivery, int]) -> None:
    """Print records; those that were written are accepted."""
    begin = 0
    while begin < len(found):
        end = begin
        while end < len(found) and found[end].partition == found[begin].partition:
            end += 1
        some = found[begin:end]
        try:
            await printer.put(some[0].partition, [one.record for one in some])
        except BaseException:  # Ctrl-C, which may come between the last byte and this note of it
            if printer.has_written:
                outcomes.update(dict.fromkeys(some, ACCEPT))
            raise
        outcomes.update(dict.fromkeys(some, ACCEPT))
        begin = end


async def _run_commands(
    command: str, workers: int, found: list[Delivery], outcomes: dict[Delivery, int]
) -> None:
    """Give each record to a command of its own, so many at a time; CommandError."""
    limit = trio.CapacityLimiter(workers)
    failures: list[int] = []

    async def run(delivery: Delivery) -> None:
        async with limit:
            if failures:
                return
            code = await _run_command(command, delivery)
        if code in CANNOT_RUN:
            failures.append(code)
        elif code == EXIT_ACCEPT:
            outcomes[delivery] = ACCEPT
        else:
            outcomes[delivery] = REJECT if code == EXIT_REJECT else RELEASE

    async with trio.open_nursery() as nursery:
        for delivery in found:
            nursery.start_soon(run, delivery)
    if failures:
        raise CommandError(
            f"--exec {command}: the shell can't run it (exit code {failures[0]}); the record is "
            "available again"
        )


async def _run_command(command: str, delivery: Delivery) -> int:
    """Run a command with a record on its standard input; its exit code, negative for a signal."""
    (topic, partition), record, count = delivery
    surroundings = os.environ | {
        "KWIRE_TOPIC": topic,
        "KWIRE_PARTITION": str(partition),
        "KWIRE_OFFSET": str(record.offset),
        "KWIRE_DELIVERY": str(count),
    }
    key = bytes(record.key or b"")
    if record.key is not None and b"\0" not in key and len(key) <= MAX_KEY_BYTES:
        surroundings["KWIRE_KEY"] = os.fsdecode(key)
    value = bytes(record.value or b"")
    done = await trio.run_process(
        ["/bin/sh", "-c", command], stdin=value, check=False, env=surroundings
    )
    return done.returncode
