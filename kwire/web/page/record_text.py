"""The bytes of keys and values as text: as plain text, JSON, hex, or in Confluent's framing.

Confluent's framing is a zero byte and the id of a schema as an int32, before the payload. With the
schema (``kwire.schemas.readable``) the value stands as JSON. Without it, a payload that is JSON or
text is shown as such, and any other payload in hex.
"""

import json
from collections.abc import Callable
from typing import NamedTuple

from kwire.schemas.readable import Decoded

FORMATS = ("auto", "text", "json", "hex", "confluent")
FRAME_BYTES = 5
MAX_LIKELY_ID = 1_000_000
PREVIEW = 200
PREVIEW_BYTES = 32
MAX_JSON_BYTES = 64 * 1024
MAX_GROWTH = 8
TOO_LONG = "the page doesn't read a value of this length by its schema"
_HEX_ROW = 16
_INDENTED = json.JSONEncoder(indent=2, ensure_ascii=False)


class Shown(NamedTuple):
    """A key or value as text. ``kind`` says how it was read, ``is_cut`` whether it is longer.

    ``note`` says why it isn't read by its schema.
    """

    kind: str
    text: str
    preview: str
    size_bytes: int
    is_cut: bool
    note: str = ""


BySchema = Callable[[bytes], Decoded | str]
"""From a whole value in Confluent's framing to its text, or why there is none."""


def shown(
    start: bytes | None,
    form: str,
    size_bytes: int,
    by_schema: BySchema | None = None,
    most_bytes: int | None = None,
) -> Shown:
    """A key or value in this format, one of ``FORMATS``; ``start`` may be only its beginning.

    What isn't read by its schema is cut after ``most_bytes``.
    """
    if start is None:
        return Shown("null", "", "", 0, False)
    is_cut = size_bytes > len(start)
    frame = frame_of(start, form)
    note = ""
    if frame is not None and by_schema is not None:
        decoded = TOO_LONG if is_cut else by_schema(start)
        if isinstance(decoded, Decoded):
            kind, preview = f"{decoded.kind}, schema {frame}", " ".join(decoded.text.split())
            preview = preview[:PREVIEW] + ("…" if len(preview) > PREVIEW else "")
            return Shown(kind, decoded.text, preview, size_bytes, is_cut)
        note = decoded
    start = start[:most_bytes]
    is_cut = size_bytes > len(start)
    payload = start if frame is None else start[FRAME_BYTES:]
    kind, text = _payload(payload, form)
    preview, is_whole = payload[:PREVIEW_BYTES].hex(" "), len(payload) <= PREVIEW_BYTES
    if kind != "hex":
        line = " ".join(payload[: PREVIEW * 8].decode(errors="replace").split())
        preview, is_whole = line[:PREVIEW], len(line) <= PREVIEW and len(payload) <= PREVIEW * 8
    if frame is not None:
        kind = f"schema {frame}, {kind}"
    elif form == "confluent":
        kind = f"no frame, {kind}"
    preview += "" if is_whole and not is_cut else "…"
    return Shown(kind, text, preview, size_bytes, is_cut, note)


def frame_of(content: bytes, form: str) -> int | None:
    """The id of the schema in Confluent's framing, None without one.

    Binary content may begin with a zero byte too. Unless the user has chosen the framing, only ids
    up to ``MAX_LIKELY_ID`` count.
    """
    if form not in ("auto", "confluent") or len(content) < FRAME_BYTES or content[0]:
        return None
    schema_id = int.from_bytes(content[1:FRAME_BYTES])
    return schema_id if form == "confluent" or schema_id <= MAX_LIKELY_ID else None


def _payload(content: bytes, form: str) -> tuple[str, str]:
    """The kind of a payload, and its text: JSON, text or hex, as detected or as chosen."""
    text = content.decode(errors="replace") if form == "text" else _text(content)
    if form == "hex" or text is None:
        return "hex", hex_rows(content)
    as_json = None if form == "text" else _json(text)
    return ("text", text) if as_json is None else ("json", as_json)


def _text(content: bytes) -> str | None:
    """The bytes as text, None if they aren't text. The last character may be cut."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        if error.start < len(content) - 3 or error.reason != "unexpected end of data":
            return None
        text = content[: error.start].decode()
    controls = sum(character < " " and character not in "\t\r\n" for character in text)
    return None if controls else text


def _json(text: str) -> str | None:
    """JSON with indents, None if the text isn't a JSON object or list.

    Indents make a text of deep lists a thousand times as long. JSON that would grow to more than
    ``MAX_GROWTH`` times its length is shown as it is.
    """
    if text.lstrip()[:1] not in ("{", "[") or len(text) > MAX_JSON_BYTES:
        return None
    left = MAX_GROWTH * len(text)
    pieces = []
    try:
        for piece in _INDENTED.iterencode(json.loads(text)):
            pieces.append(piece)
            left -= len(piece)
            if left < 0:
                return text
    except (ValueError, RecursionError):
        return None
    return "".join(pieces)


def hex_rows(content: bytes) -> str:
    """Rows of 16 bytes: the place, the bytes, and the characters that are ASCII."""
    rows = []
    for start in range(0, len(content), _HEX_ROW):
        row = content[start : start + _HEX_ROW]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{start:06x}  {row.hex(' '):<47}  {letters}")
    return "\n".join(rows)
