"""Printing of fetched records: filtered, formatted, counted."""

import argparse
import select
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import trio

from kwire.cli.record_filter import RecordFilter, expression, header_expression
from kwire.cli.record_lines import FORMATS, Format, write_key_value, write_visible
from kwire.client.leaders import TopicPartition
from kwire.config.extras import needs
from kwire.record.records import Record

if TYPE_CHECKING:
    from kwire.cli.schema_decoding import SchemaDecoding

LAST_WRITE_S = 1.0
"""How long Ctrl-C waits for a write, so that printed records are committed, too."""


class Printer:
    """Writes records to stdout; ``is_full`` when the wanted number is written."""

    def __init__(
        self,
        form: Format,
        keeps: RecordFilter,
        most: int | None,
        decoding: "SchemaDecoding | None" = None,
    ) -> None:
        self._form = form
        self._filter = keeps
        self._left = most
        self._decoding = decoding
        self.has_written = True
        """Whether the whole last ``put`` is written, even if ``put`` was cancelled meanwhile."""

    @property
    def is_full(self) -> bool:
        """Whether no more records are to be printed."""
        return self._left == 0

    def keeps(self, record: Record) -> bool:
        """Whether the filters let a record through."""
        return self._filter.keeps(record)

    async def put(self, partition: TopicPartition, records: Sequence[Record]) -> int | None:
        """Print records of a partition; the offset after the last one read, None if there is none.

        Writing happens in a thread, because the reader of a pipe may be slow, and a member of a
        group has to send heartbeats meanwhile.
        """
        out = bytearray()
        next_offset = None
        if self._decoding is not None:
            await trio.to_thread.run_sync(self._decoding.learn, records)
        for record in records:
            if self.is_full:
                break
            next_offset = record.offset + 1
            if self._filter.keeps(record):
                shown = record if self._decoding is None else self._decoding.decoded(record)
                out += self._form(partition, shown)
                if self._left is not None:
                    self._left -= 1
        if out:
            await self._write(bytes(out))
        return next_offset

    async def _write(self, content: bytes) -> None:
        """Write; if Ctrl-C comes meanwhile, wait a moment for the thread to end its write."""
        self.has_written = False
        has_ended = threading.Event()

        def write() -> None:
            try:
                _write(content)
                self.has_written = True
            finally:
                has_ended.set()

        try:
            await trio.to_thread.run_sync(write, abandon_on_cancel=True)
        finally:
            if not has_ended.is_set():
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(has_ended.wait, LAST_WRITE_S)


async def end_without_reader() -> None:
    """Raise BrokenPipeError once nobody reads standard output any more, as after ``| head``.

    A write would say so as well, but no further record may come. Files always have a reader.
    """
    with select.epoll() as watched:
        try:
            watched.register(sys.stdout.fileno(), 0)  # 0: only that the other end is closed
        except OSError:
            return
        await trio.lowlevel.wait_readable(watched.fileno())
    raise BrokenPipeError


async def end_on_sigterm() -> None:
    """Raise SystemExit after SIGTERM, so that what was begun is ended as after Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        return  # signals are for the main thread, whose program this is not
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for number in signals:
            raise SystemExit(128 + number)


def _write(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def make_printer(options: argparse.Namespace) -> Printer:
    """The printer that the options of ``kwire consume`` ask for; ArgumentTypeError."""
    keeps = RecordFilter(
        None if options.key is None else expression(options.key),
        None if options.value is None else expression(options.value),
        [header_expression(text) for text in options.header],
    )
    form = FORMATS.get(options.format) or write_key_value(options.key_separator.encode())
    if options.format in ("value", "key-value") and sys.stdout.isatty():
        form = partial(write_visible, form)
    return Printer(form, keeps, options.count, _decoding(options))


def _decoding(options: argparse.Namespace) -> "SchemaDecoding | None":
    """What decodes by a registry's schemas; ValueError without the packages for it."""
    if not getattr(options, "registry", None):
        return None
    if find_spec("confluent_kafka") is None:
        raise ValueError(f"--registry {needs('schemas', 'confluent-kafka')}")
    from kwire.cli.schema_decoding import SchemaDecoding

    return SchemaDecoding(options.registry)
