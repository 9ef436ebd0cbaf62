"""The bytes of keys and values as text: as plain text, JSON, hex, or in Confluent's framing.

Confluent's framing is a zero byte and the id of a schema as an int32, before the payload. Without
the schema, a payload that is JSON or text is shown as such, and any other payload in hex.
"""

import json
from typing import NamedTuple

FORMATS = ("auto", "text", "json", "hex", "confluent")
FRAME_BYTES = 5
PREVIEW = 200
PREVIEW_BYTES = 32
MAX_JSON_BYTES = 64 * 1024
_HEX_ROW = 16


class Shown(NamedTuple):
    """A key or value as text. ``kind`` says how it was read, ``is_cut`` whether it is longer."""

    kind: str
    text: str
    preview: str
    size_bytes: int
    is_cut: bool


def shown(start: bytes | None, form: str, size_bytes: int) -> Shown:
    """A key or value in this format, one of ``FORMATS``; ``start`` may be only its beginning."""
    if start is None:
        return Shown("null", "", "", 0, False)
    kind, text = _read(start, form, size_bytes)
    is_cut = size_bytes > len(start)
    preview, is_whole = start[:PREVIEW_BYTES].hex(" "), len(start) <= PREVIEW_BYTES
    if kind != "hex":
        line = " ".join(text[: PREVIEW * 8].split())
        preview, is_whole = line[:PREVIEW], len(line) <= PREVIEW and len(text) <= PREVIEW * 8
    mark = "" if is_whole and not is_cut else "…"
    return Shown(kind, text, preview + mark, size_bytes, is_cut)


def _read(content: bytes, form: str, size_bytes: int) -> tuple[str, str]:
    if form == "hex":
        return "hex", hex_rows(content)
    if form == "text":
        return "text", content.decode(errors="replace")
    is_framed = size_bytes >= FRAME_BYTES and content[:1] == b"\0"
    if form == "confluent" or (form == "auto" and is_framed):
        if is_framed:
            schema_id = int.from_bytes(content[1:FRAME_BYTES])
            _, text = _plain(content[FRAME_BYTES:])
            return f"schema {schema_id}", text
        if form == "confluent":
            return "no frame", _plain(content)[1]
    return _plain(content)


def _plain(content: bytes) -> tuple[str, str]:
    """JSON, text, or hex, whatever it is."""
    text = _text(content)
    if text is None:
        return "hex", hex_rows(content)
    as_json = _json(text)
    return ("text", text) if as_json is None else ("json", as_json)


def _text(content: bytes) -> str | None:
    """The bytes as text, None if they are none. The last character may be cut."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        if error.start < len(content) - 3 or error.reason != "unexpected end of data":
            return None
        text = content[: error.start].decode()
    controls = sum(character < " " and character not in "\t\r\n" for character in text)
    return None if controls else text


def _json(text: str) -> str | None:
    """JSON with indents, None if it is none, or neither an object nor a list."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > MAX_JSON_BYTES:
        return None
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def hex_rows(content: bytes) -> str:
    """Rows of 16 bytes: the place, the bytes, and the characters that are ASCII."""
    rows = []
    for start in range(0, len(content), _HEX_ROW):
        row = content[start : start + _HEX_ROW]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{start:06x}  {row.hex(' '):<47}  {letters}")
    return "\n".join(rows)
