"""A schema registry, asked by confluent-kafka's ``SchemaRegistryClient``.

That client has the HTTP, the logins, TLS and the tries; this module has the answers as kwire needs
them. Every failure is one line, which names what was asked for, without a password.

Rules:

- RegistryAway: no answer, or an answer that means "later" (429, 5xx), even after all tries.
- NoSuchSchema: the registry answers that it has no such id, subject or version.
- RegistryRefuses: any other answer, such as a wrong password, and a login that can't work.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from kwire.config.providers import SETTING as PROVIDERS
from kwire.config.providers import resolved
from kwire.config.values import ConfigError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.error import SchemaRegistryError

AVRO = "AVRO"
JSON = "JSON"
PROTOBUF = "PROTOBUF"

CLIENT_OPTIONS = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "bearer.auth.credentials.source",
    "bearer.auth.token",
    "bearer.auth.logical.cluster",
    "bearer.auth.identity.pool.id",
    "bearer.auth.client.id",
    "bearer.auth.client.secret",
    "bearer.auth.scope",
    "bearer.auth.issuer.endpoint.url",
    "bearer.auth.issuer.endpoint.query",
    "proxy",
)
"""The options of confluent-kafka's client that a pipeline may give, beside ``config.providers``."""

_LOGIN = "decode.registry_user, registry_password and registry_client"
_LATER = frozenset({408, 429, 500, 502, 503, 504})
_MAX_REFERENCES = 500


class RegistryError(Exception):
    """A registry's failure; the text is one line."""


class RegistryAway(RegistryError):
    """The registry doesn't answer at the moment."""


class NoRegistryThere(RegistryAway):
    """Nothing takes connections at the address; ``reason`` says why, in the system's words."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


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
    """The longest pause before the second try; it doubles before each further one."""
    client: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """More options of confluent-kafka's client: TLS and logins."""
    login_names: str = _LOGIN
    """The user's settings for the login, as errors tell them."""
    client_name: str = "decode.registry_client"
    """The user's setting for ``client``."""

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


def load_client() -> None:
    """Import the packages that ask a registry, if they are there: that takes up to a second."""
    with suppress(ImportError):
        import_module("confluent_kafka.schema_registry")


class Registry:
    """Asks one registry; connections stay open until ``close``."""

    def __init__(self, settings: RegistrySettings) -> None:
        self.settings = settings
        self._client: SchemaRegistryClient | None = None

    def subjects(self) -> list[str]:
        """The names of all subjects."""
        return list(map(str, self._ask("its subjects", lambda client: client.get_subjects())))

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject, ascending."""
        what = f"the versions of subject {subject}"
        return sorted(map(int, self._ask(what, lambda client: client.get_versions(subject))))

    def newest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject."""
        return self._version(subject, "latest")

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of a subject."""
        return self._version(subject, version)

    def _version(self, subject: str, version: "int | Literal['latest']") -> RegisteredSchema:
        what = f"version {version} of subject {subject}"
        found = self._ask(what, lambda client: client.get_version(subject, version))
        return self._schema(what, found.schema, found.schema_id, found.version)

    def by_id(self, number: int) -> RegisteredSchema:
        """The schema with an id."""
        what = f"schema id {number}"
        return self._schema(what, self._ask(what, lambda client: client.get_schema(number)), number)

    def register(
        self, subject: str, text: str, kind: str = AVRO, references: tuple[Reference, ...] = ()
    ) -> int:
        """Register a schema under a subject, as its newest version; its id."""
        from confluent_kafka.schema_registry import Schema, SchemaReference

        used = [SchemaReference(one.name, one.subject, one.version) for one in references]
        schema = Schema(text, kind, used)
        what = f"a new version of subject {subject}"
        return int(self._ask(what, lambda client: client.register_schema(subject, schema)))

    def level(self, subject: str) -> str:
        """The level of compatibility that holds for a subject, such as BACKWARD."""
        what = f"the compatibility of subject {subject}"
        try:
            found = self._ask(what, lambda client: client.get_config(subject))
        except NoSuchSchema:  # it has none of its own
            found = self._ask(what, lambda client: client.get_config())
        return str(found.compatibility_level or found.compatibility)

    def referenced(self, schema: RegisteredSchema) -> dict[str, RegisteredSchema]:
        """All schemas that a schema uses, also indirectly, by name; those used come first."""
        found: dict[str, RegisteredSchema] = {}

        def visit(schema: RegisteredSchema) -> None:
            for reference in schema.references:
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

    def _ask(self, what: str, work: "Callable[[SchemaRegistryClient], Any]") -> Any:
        """The answer of confluent-kafka's client, which tries again; RegistryError."""
        from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

        where = self.settings.address
        try:
            if self._client is None:
                self._client = _open(self.settings)
            return work(self._client)
        except SchemaRegistryError as error:
            raise self._of_status(f"{where}, asked for {what},", error) from error
        except OAuthTokenError as error:
            text = f"{where}: no token for {what}: {' '.join(error.message.split())}"
            if isinstance(error.__context__, _no_answer()):
                raise RegistryAway(text) from error
            raise RegistryRefuses(f"{text}; {self._hint}") from error
        except _no_answer() as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            text = f"no answer from {where}, asked for {what}: {reason}"
            if type(error).__name__ == "ConnectError":
                raise NoRegistryThere(text, reason) from error
            raise RegistryAway(text) from error
        except ValueError as error:
            raise RegistryRefuses(
                f"{where}, asked for {what}, answers no JSON: is it a schema registry?"
            ) from error
        except (KeyError, TypeError, AttributeError) as error:
            raise RegistryRefuses(_no_schema(where, what)) from error

    def _of_status(self, start: str, error: "SchemaRegistryError") -> RegistryError:
        """The error of an answer, and what to do about it."""
        status = error.http_status_code
        reason = " ".join(str(error.error_message).split())[:200]
        text = f"{start} answers {status}: {reason}"
        if status == 404:
            return NoSuchSchema(text)
        if status in _LATER:
            return RegistryAway(text)
        return RegistryRefuses(f"{text}; {self._hint}" if status in (401, 403) else text)

    @property
    def _hint(self) -> str:
        return f"see {self.settings.login_names}"

    def _schema(
        self, what: str, found: "Schema", number: int | None, version: int | None = None
    ) -> RegisteredSchema:
        """A schema of an answer; the answer may hold none."""
        if not isinstance(found.schema_str, str):
            raise RegistryRefuses(_no_schema(self.settings.address, what))
        references = tuple(
            Reference(str(one.name), str(one.subject), int(one.version or 0))
            for one in found.references or ()
        )
        return RegisteredSchema(
            id=int(number or 0),
            type=str(found.schema_type or AVRO),
            text=found.schema_str,
            references=references,
            version=int(version or 0),
        )


def _open(settings: RegistrySettings) -> "SchemaRegistryClient":
    """A client with the login and the TLS of the settings; RegistryRefuses."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    options: dict[str, Any] = {
        "url": settings.address,
        "timeout": settings.timeout_s,
        "max.retries": settings.attempts - 1,
        "retries.wait.ms": int(settings.pause_s * 1000),
    }
    if settings.address.startswith("http://"):
        options["ssl.ca.location"] = False  # to load all CAs takes 0.2 s, in each Python worker
    if settings.credentials is not None:
        options["basic.auth.user.info"] = ":".join(settings.credentials)
    try:
        given = resolved(dict(settings.client))
        used = {name: one for name, one in given.items() if not name.startswith(PROVIDERS)}
        return SchemaRegistryClient(options | used)
    except ConfigError as error:
        reason = f"{error.name} = {error.value!r}: {error.allowed}"
    except (ValueError, TypeError, OSError) as error:
        reason = str(error)
    raise RegistryRefuses(f"{settings.client_name}: {reason}")


def _no_answer() -> type[Exception]:
    """The error of the HTTP client that confluent-kafka has chosen: no answer, or a bad one."""
    module = import_module("httpx2" if find_spec("httpx2") else "httpx")
    found: type[Exception] = module.HTTPError
    return found


def _no_schema(where: str, what: str) -> str:
    return f"{where}, asked for {what}, answers without a schema: is it a schema registry?"
