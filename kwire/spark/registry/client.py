"""A client of a schema registry. Every failure is one line, without the password of the URL.

Rules:

- RegistryAway: no answer, or an answer that means "later" (429, 5xx), even after all tries.
- NoSuchSchema: the registry answers that it has no such id, subject or version.
- RegistryRefuses: any other answer, such as a wrong password.
"""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

if TYPE_CHECKING:
    import httpx

AVRO = "AVRO"
JSON = "JSON"
PROTOBUF = "PROTOBUF"

_TYPE = "application/vnd.schemaregistry.v1+json"
_LATER = frozenset({408, 429, 500, 502, 503, 504})
_MAX_ANSWER_BYTES = 16 << 20
_MAX_REFERENCES = 500


class RegistryError(Exception):
    """A registry's failure; the text is one line."""


class RegistryAway(RegistryError):
    """The registry doesn't answer at the moment."""


class NoSuchSchema(RegistryError):
    """The registry has no such id, subject or version."""


class RegistryRefuses(RegistryError):
    """The registry refuses the request."""


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The address of a registry, and the settings of requests to it."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    timeout_s: float = 5.0
    attempts: int = 3
    pause_s: float = 0.2
    """The pause before the second try; it doubles before each further one."""

    @property
    def address(self) -> str:
        """The URL without user and password."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))

    @property
    def credentials(self) -> tuple[str, str] | None:
        """User and password: the settings', else the URL's."""
        if self.user:
            return self.user, self.password
        parts = urlsplit(self.url)
        if parts.username is None:
            return None
        return unquote(parts.username), unquote(parts.password or "")


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one uses: its name there, and where it is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of the registry; ``id`` is 0 if the answer doesn't contain it."""

    id: int
    type: str
    text: str
    references: tuple[Reference, ...] = ()
    version: int = 0


class Registry:
    """Asks one registry; connections stay open until ``close``."""

    def __init__(self, settings: RegistrySettings) -> None:
        self.settings = settings
        self._client: httpx.Client | None = None

    def subjects(self) -> list[str]:
        """The names of all subjects."""
        return list(map(str, self._ask("GET", "/subjects")))

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject, ascending."""
        return sorted(map(int, self._ask("GET", f"/subjects/{_quoted(subject)}/versions")))

    def newest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject."""
        return _schema(self._ask("GET", f"/subjects/{_quoted(subject)}/versions/latest"))

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of a subject."""
        return _schema(self._ask("GET", f"/subjects/{_quoted(subject)}/versions/{version}"))

    def by_id(self, number: int) -> RegisteredSchema:
        """The schema with an id."""
        return _schema({"id": number, **self._ask("GET", f"/schemas/ids/{number}")})

    def register(
        self, subject: str, text: str, kind: str = AVRO, references: tuple[Reference, ...] = ()
    ) -> int:
        """Register a schema under a subject, as its newest version; its id."""
        body: dict[str, Any] = {"schema": text, "schemaType": kind}
        if references:
            body["references"] = [
                {"name": one.name, "subject": one.subject, "version": one.version}
                for one in references
            ]
        path = f"/subjects/{_quoted(subject)}/versions"
        return int(self._ask("POST", path, body)["id"])

    def referenced(self, schema: RegisteredSchema) -> dict[str, RegisteredSchema]:
        """All schemas that a schema uses, also indirectly, by name; those used come first."""
        found: dict[str, RegisteredSchema] = {}

        def visit(one: RegisteredSchema) -> None:
            for reference in one.references:
                if reference.name in found:
                    continue
                if len(found) >= _MAX_REFERENCES:
                    raise RegistryRefuses(f"a schema uses more than {_MAX_REFERENCES} others")
                used = self.version(reference.subject, reference.version)
                found[reference.name] = used
                visit(used)

        visit(schema)
        return dict(reversed(found.items()))

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        for attempt in range(self.settings.attempts):
            if attempt:
                time.sleep(self.settings.pause_s * 2 ** (attempt - 1))
            try:
                return self._ask_once(method, path, body)
            except RegistryAway as error:
                last = error
        raise last

    def _ask_once(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        import httpx

        where = self.settings.address
        if self._client is None:
            self._client = httpx.Client(
                auth=self.settings.credentials,
                timeout=self.settings.timeout_s,
                headers={"Accept": f"{_TYPE}, application/json", "Content-Type": _TYPE},
            )
        try:
            answer = self._client.request(method, where + path, json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise RegistryAway(f"no answer from {where}: {reason}") from error
        if answer.is_success:
            return _body(answer, where)
        text = f"{where}{path} answers {answer.status_code}{_reason(answer)}"
        if answer.status_code == 404:
            raise NoSuchSchema(text)
        if answer.status_code in _LATER:
            raise RegistryAway(text)
        raise RegistryRefuses(text)


def _body(answer: "httpx.Response", where: str) -> Any:
    if len(answer.content) > _MAX_ANSWER_BYTES:
        raise RegistryRefuses(f"{where} answers more than {_MAX_ANSWER_BYTES} bytes")
    try:
        return answer.json()
    except ValueError as error:
        raise RegistryRefuses(f"{where} answers no JSON: is it a schema registry?") from error


def _reason(answer: "httpx.Response") -> str:
    try:
        message = answer.json()["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    return ": " + " ".join(str(message).split())[:200]


def _schema(body: Any) -> RegisteredSchema:
    """A schema of an answer; Avro has no ``schemaType`` there."""
    try:
        references = tuple(
            Reference(str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in body.get("references") or ()
        )
        return RegisteredSchema(
            id=int(body.get("id", 0)),
            type=str(body.get("schemaType") or AVRO),
            text=str(body["schema"]),
            references=references,
            version=int(body.get("version", 0)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RegistryRefuses("the registry's answer holds no schema") from error


def _quoted(subject: str) -> str:
    return quote(subject, safe="")
