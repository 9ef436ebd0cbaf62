"""Builds the parts of requests to etcd's JSON gateway, and reads its answers.

Format: keys and values are base64. Numbers of 64 bits are strings. A field that is 0, false or
empty is left out of an answer.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, NamedTuple

from kwire.metadata.etcd.keys import Keys, end_of
from kwire.metadata.store import Guard

Json = dict[str, Any]


class KeyValue(NamedTuple):
    """A key of etcd: its value, the revision of etcd at which it was created, and its lease."""

    key: str
    value: bytes
    created: int
    lease: str


def _text(key: str) -> str:
    return b64encode(key.encode()).decode()


def put(key: str, value: bytes, lease: str = "0") -> Json:
    """Write a key, under a lease or without one."""
    return {"request_put": {"key": _text(key), "value": b64encode(value).decode(), "lease": lease}}


def get(key: str) -> Json:
    """Read one key."""
    return {"request_range": {"key": _text(key)}}


def get_between(first: str, end: str, limit: int = 0) -> Json:
    """Read the keys from ``first`` to before ``end``, in order, at most ``limit`` of them."""
    return {"request_range": {"key": _text(first), "range_end": _text(end), "limit": str(limit)}}


def get_last(first: str, end: str) -> Json:
    """Read the last of these keys without its value."""
    between = get_between(first, end, 1)["request_range"]
    return {"request_range": {**between, "sort_order": "DESCEND", "keys_only": True}}


def has(key: str) -> Json:
    """Read one key without its value."""
    return {"request_range": {"key": _text(key), "keys_only": True}}


def delete(key: str) -> Json:
    """Delete one key."""
    return {"request_delete_range": {"key": _text(key)}}


def delete_between(first: str, end: str) -> Json:
    """Delete the keys from ``first`` to before ``end``."""
    return {"request_delete_range": {"key": _text(first), "range_end": _text(end)}}


def is_there(key: str) -> Json:
    """Compare: the key exists."""
    return {"key": _text(key), "target": "VERSION", "result": "GREATER", "version": "0"}


def is_absent(key: str) -> Json:
    """Compare: the key doesn't exist."""
    return {"key": _text(key), "target": "VERSION", "result": "EQUAL", "version": "0"}


def is_empty(prefix: str) -> Json:
    """Compare: no key begins with this prefix."""
    return {**is_absent(prefix), "range_end": _text(end_of(prefix))}


def has_value(key: str, value: bytes) -> Json:
    """Compare: the key has this value."""
    value_text = b64encode(value).decode()
    return {"key": _text(key), "target": "VALUE", "result": "EQUAL", "value": value_text}


def still(keys: Keys, guard: Guard) -> Json:
    """Compare: the guard's key still exists and wasn't made again."""
    key = _text(keys.full(guard.key))
    created = str(guard.created)
    return {"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": created}


def transaction(
    compare: Sequence[Json], success: Sequence[Json], failure: Sequence[Json] = ()
) -> Json:
    """One transaction: if all compare, do ``success``, else ``failure``."""
    return {"compare": list(compare), "success": list(success), "failure": list(failure)}


def watch_between(first: str, end: str) -> Json:
    """Watch the keys from ``first`` to before ``end`` from now on."""
    return {"create_request": {"key": _text(first), "range_end": _text(end)}}


def key_value(found: Json) -> KeyValue:
    """One key of an answer or an event."""
    return KeyValue(
        b64decode(found["key"]).decode(),
        b64decode(found.get("value", "")),
        int(found.get("create_revision", 0)),
        str(found.get("lease", "0")),
    )


def found_keys(answer: Json, place: int = 0) -> list[KeyValue]:
    """The keys that the request at this place of a transaction has read."""
    found = answer["responses"][place].get("response_range", {})
    return [key_value(item) for item in found.get("kvs", ())]


def succeeded(answer: Json) -> bool:
    """Whether all of a transaction's comparisons held."""
    return bool(answer.get("succeeded", False))


def revision_of(answer: Json) -> int:
    """The revision of etcd's whole store when it answered."""
    return int(answer.get("header", {}).get("revision", 0))
