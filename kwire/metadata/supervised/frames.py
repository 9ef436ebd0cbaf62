"""Frames between a worker and its supervisor over a Unix socket.

Format: 4 bytes with the length of the rest, big-endian, then one JSON object in UTF-8.

- Both sides begin with ``{"format": 1}``. Whoever gets another number ends the connection.
- The worker asks: ``{"id": 7, "call": "commit", …}``. Ids grow.
- The supervisor answers with any number of ``{"id": 7, "event": …}`` and one of
  ``{"id": 7, "result": …}`` and ``{"id": 7, "error": [type, code, message]}``.

A frame is at most 16 MiB; a longer one ends the connection.
"""

import json
from typing import Any

import trio

FORMAT = 1
MAX_FRAME_BYTES = 16 << 20
READ_BYTES = 64 << 10
LENGTH_BYTES = 4

SIGNS_OF_LIFE = 5
"""So many times a worker shows that it is alive, within the time to live of its session."""

Frame = dict[str, Any]


class FrameError(Exception):
    """The other side sent something that is no frame, or speaks another format."""


def encode_frame(fields: Frame, changes: str | None = None) -> bytes:
    """A frame's bytes; ``changes`` is JSON already. FrameError if it is too long."""
    text = json.dumps(fields)
    if changes is not None:
        text = f'{text[:-1]}, "changes": {changes}}}'
    content = text.encode()
    if len(content) > MAX_FRAME_BYTES:
        raise FrameError(f"{len(content)} bytes are too many for a frame")
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


class FrameStream:
    """A stream of frames over a stream of bytes."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._sending = trio.StrictFIFOLock()

    async def greet(self) -> None:
        """Exchange the formats; FrameError if the other side speaks another one."""
        await self.send(encode_frame({"format": FORMAT}))
        found = await self.receive()
        other = None if found is None else found.get("format")
        if other != FORMAT:
            raise FrameError(
                f"supervisor and worker are different versions of kwire: format {other}, not "
                f"{FORMAT}; stop both and start them again"
            )

    async def send(self, frame: bytes) -> None:
        """Send an encoded frame; trio.BrokenResourceError if the other side is gone."""
        async with self._sending:
            await self._stream.send_all(frame)

    async def receive(self) -> Frame | None:
        """The next frame; None if either side has closed the connection. FrameError."""
        while (frame := self._next_content()) is None:
            try:
                received = await self._stream.receive_some(READ_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return None
            if not received:
                return None
            self._buffer += received
        try:
            found = json.loads(frame)
        except ValueError as error:
            raise FrameError(f"a frame is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise FrameError("a frame is a JSON object")
        return found

    def _next_content(self) -> bytes | None:
        """The next complete frame's content."""
        buffer = self._buffer
        if len(buffer) < LENGTH_BYTES:
            return None
        end = LENGTH_BYTES + int.from_bytes(buffer[:LENGTH_BYTES], "big")
        if end > LENGTH_BYTES + MAX_FRAME_BYTES:
            raise FrameError(f"a frame has {end} bytes; is the other side kwire?")
        if len(buffer) < end:
            return None
        frame = bytes(buffer[LENGTH_BYTES:end])
        del buffer[:end]
        return frame

    async def close(self) -> None:
        """Close the connection."""
        await self._stream.aclose()
