"""Numbers, sizes, times and texts as people read them."""

from collections.abc import Iterable
from datetime import UTC, datetime

MAX_TEXT = 400
NOTHING = "\N{EN DASH}"

_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_COUNTS = ("", "k", "M", "G", "T")
_STEPS = ((86_400, "d"), (3600, "h"), (60, "min"))


def size(value: float | None) -> str:
    """A number of bytes, like ``1.2 MB``."""
    return NOTHING if value is None else _scaled(value, _SIZES)


def short(value: float | None) -> str:
    """A number that may be long, like ``1.2 M``."""
    return NOTHING if value is None else _scaled(value, _COUNTS).strip()


def _scaled(value: float, units: tuple[str, ...]) -> str:
    left, place = float(value), 0
    while abs(left) >= 999.5 and place < len(units) - 1:
        left /= 1000
        place += 1
    is_whole = left == int(left) and place == 0
    return f"{left:.0f} {units[place]}" if is_whole or left >= 100 else f"{left:.1f} {units[place]}"


def number(value: float | None) -> str:
    """A number in full, with separators."""
    return NOTHING if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """A number per second."""
    return NOTHING if value is None else f"{short(value)}/s"


def byte_rate(value: float | None) -> str:
    """Bytes per second."""
    return NOTHING if value is None else f"{size(value)}/s"


def percent(value: float | None) -> str:
    """A share as a percentage."""
    return NOTHING if value is None else f"{value * 100:.0f} %"


def time_text(at_ms: int | None) -> str:
    """A time in ms since the epoch as UTC, to the millisecond."""
    if at_ms is None or at_ms < 0:
        return NOTHING
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(at_ms)  # a producer may have written any number
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03d}"


def duration(seconds: float | None) -> str:
    """A time span, like ``3.2 s`` or ``2 h 5 min``."""
    if seconds is None:
        return NOTHING
    if seconds < 60:
        return _below_a_minute(max(seconds, 0))
    for place, (step, unit) in enumerate(_STEPS):
        if seconds >= step:
            whole, rest = divmod(int(seconds), step)
            if place + 1 < len(_STEPS):
                smaller, its_unit = _STEPS[place + 1]
                return _two(whole, unit, rest // smaller, its_unit)
            return _two(whole, unit, rest, "s")
    raise AssertionError(seconds)


def _two(whole: int, unit: str, rest: int, its_unit: str) -> str:
    return f"{whole} {unit} {rest} {its_unit}" if rest else f"{whole} {unit}"


def _below_a_minute(seconds: float) -> str:
    if seconds >= 1 or not seconds:
        return f"{seconds:.1f} s" if seconds else "0 s"
    if seconds >= 0.001:
        return f"{seconds * 1000:.{0 if seconds >= 0.01 else 1}f} ms"
    return f"{seconds * 1e6:.0f} µs"


def visible(text: str, most: int = MAX_TEXT) -> str:
    """A client's text, shortened, with a visible sign for every character that isn't printable.

    Invisible characters could hide a text or reverse its direction (Unicode's bidi controls).
    """
    cut = text[:most]
    if not cut.isprintable():
        cut = "".join(_visible(character) for character in cut)
    return cut + "…" if len(text) > most else cut


def visible_lines(text: str) -> str:
    """Like ``visible`` for a text with lines, in full."""
    return "\n".join(
        visible(line.replace("\t", "    "), len(line) * 4) for line in text.split("\n")
    )


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def ranges(numbers: Iterable[int], most: int = 60) -> str:
    """Partitions as ranges: ``0-3, 7``."""
    parts: list[list[int]] = []
    for one in sorted(numbers):
        if parts and one == parts[-1][1] + 1:
            parts[-1][1] = one
        else:
            parts.append([one, one])
    texts = [f"{first}" if first == last else f"{first}-{last}" for first, last in parts[:most]]
    if len(parts) > most:
        texts.append(f"… ({len(parts) - most} more)")
    return ", ".join(texts)
