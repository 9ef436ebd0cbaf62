"""The keys of the simulated etcd: transactions over ranges, with revisions and leases.

The requests and answers have the format of etcd's JSON gateway; ``Keyspace`` knows the parts of it
that kwire uses.
"""

from base64 import b64decode, b64encode
from collections.abc import Container
from typing import Any, NamedTuple

from kwire.metadata.etcd.gateway import EtcdError
from kwire.metadata.etcd.transactions import Json


class Item(NamedTuple):
    """One key's value, lease, and the revisions of its creation and last change."""

    value: bytes
    lease: str
    created: int
    modified: int
    version: int


class Keyspace:
    """All keys, and the revision of the whole."""

    def __init__(self) -> None:
        self.items: dict[bytes, Item] = {}
        self.revision = 1

    def transact(self, request: Json, leases: Container[str]) -> tuple[Json, list[Json]]:
        """Do a transaction; the answer, and the events for watches. EtcdError without its lease."""
        is_success = all(self._holds(compare) for compare in request["compare"])
        for operation in request["success"] if is_success else ():
            lease = str(operation.get("request_put", {}).get("lease", "0"))
            if lease != "0" and lease not in leases:
                raise EtcdError(5, "etcdserver: requested lease not found")
        revision, events, responses = self.revision + 1, list[Json](), list[Json]()
        for operation in request["success" if is_success else "failure"]:
            ((kind, body),) = operation.items()
            if kind == "request_range":
                responses.append({"response_range": self._range(body)})
            elif kind == "request_put":
                events.append(self._put(body, revision))
                responses.append({"response_put": {}})
            else:
                events += [self._delete(key, revision) for key in self._keys(body)]
                responses.append({"response_delete_range": {}})
        if events:
            self.revision = revision
        answer: Json = {"responses": responses}
        if is_success:
            answer["succeeded"] = True
        return answer, events

    def delete_lease(self, lease: str) -> list[Json]:
        """Delete the keys of a lease; the events."""
        keys = [key for key, item in self.items.items() if item.lease == lease]
        if keys:
            self.revision += 1
        return [self._delete(key, self.revision) for key in keys]

    def _keys(self, request: Json) -> list[bytes]:
        first = b64decode(request["key"])
        if "range_end" not in request:
            return [first] if first in self.items else []
        end = b64decode(request["range_end"])
        return sorted(key for key in self.items if first <= key < end)

    def _holds(self, compare: Json) -> bool:
        found = [self.items[key] for key in self._keys(compare)] or [Item(b"", "0", 0, 0, 0)]
        match compare["target"]:
            case "VERSION":
                wanted = int(compare["version"])
                if compare["result"] == "GREATER":
                    return all(item.version > wanted for item in found)
                return all(item.version == wanted for item in found)
            case "CREATE":
                return all(item.created == int(compare["create_revision"]) for item in found)
            case _:
                # etcd compares no value of a key that doesn't exist.
                return all(
                    item.version and item.value == b64decode(compare["value"]) for item in found
                )

    def _range(self, request: Json) -> Json:
        keys = self._keys(request)
        if request.get("sort_order") == "DESCEND":
            keys.reverse()
        limit = int(request.get("limit", 0))
        found = keys[:limit] if limit else keys
        with_value = not request.get("keys_only")
        answer: Json = {"count": str(len(keys))}
        if found:
            answer["kvs"] = [self._shown(key, with_value=with_value) for key in found]
        return answer

    def _put(self, request: Json, revision: int) -> Json:
        key = b64decode(request["key"])
        old = self.items.get(key)
        created, version = (old.created, old.version + 1) if old else (revision, 1)
        lease = str(request["lease"])
        self.items[key] = Item(b64decode(request["value"]), lease, created, revision, version)
        return {"kv": self._shown(key, with_value=True)}

    def _delete(self, key: bytes, revision: int) -> Json:
        del self.items[key]
        deleted = {"key": b64encode(key).decode(), "mod_revision": str(revision)}
        return {"type": "DELETE", "kv": deleted}

    def _shown(self, key: bytes, *, with_value: bool) -> Json:
        item = self.items[key]
        shown: dict[str, Any] = {
            "key": b64encode(key).decode(),
            "create_revision": str(item.created),
            "mod_revision": str(item.modified),
            "version": str(item.version),
        }
        if with_value and item.value:
            shown["value"] = b64encode(item.value).decode()
        if item.lease != "0":
            shown["lease"] = item.lease
        return shown
