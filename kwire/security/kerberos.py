"""SASL GSSAPI (RFC 4752): logins by Kerberos. Importing this needs the package gssapi
(``kwire[gssapi]``).

Rules:

- The JAAS line names the broker's principal, and the keytab that holds the broker's key.
- After the tickets, both sides agree on a security layer. kwire offers only "none", like Kafka: TLS
  protects the connection instead.
- The client's user is the user in its ticket. The user name that it asks for is ignored, as in
  Kafka: kafka-python and aiokafka send the broker's.
- An attacker who has overheard a login can't repeat it: the Kerberos library remembers the tickets
  that it has seen, and with mutual authentication every login has a key of its own.

Source: GssKrb5Server of the JDK, SaslServerCallbackHandler, KerberosLogin of Kafka.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from kwire.config.extras import needs
from kwire.config.listener_settings import ListenerSettings
from kwire.config.secret_files import UnsafeFile, read_secret
from kwire.security.jaas_settings import JAAS, jaas_line
from kwire.security.kerberos_names import LocalNames, NoLocalName
from kwire.security.principal import USER, Principal
from kwire.security.sasl import Identity, LoginRefused, NewExchange

TOLD = "Authentication failed: the Kerberos ticket is not valid"
MOST_MESSAGE_BYTES = 64 * 1024
"""The largest message: a ticket of Active Directory with many groups has up to 48 KB."""

SERVICE = "sasl.kerberos.service.name"
_RULES = "sasl.kerberos.principal.to.local.rules"
NO_LAYER = b"\x01\0\0\0"
"""The offer of no security layer (1), followed by the largest message under it (0) in 3 bytes."""


class Context(Protocol):
    """The part of ``gssapi.SecurityContext`` that kwire uses."""

    @property
    def complete(self) -> bool:
        """Whether the exchange of tickets is finished and the client is known."""

    @property
    def initiator_name(self) -> object:
        """The client's principal."""

    def step(self, token: bytes) -> bytes | None:
        """Take a token from the client; return the token for the client."""

    def wrap(self, message: bytes, encrypt: bool) -> tuple[bytes, bool]:
        """Make a message whose signature the client can check."""

    def unwrap(self, message: bytes) -> tuple[bytes, bool, int]:
        """Check a message's signature and return its content."""


NewContext: TypeAlias = Callable[[], Context]


class Acceptor:
    """The broker's side of Kerberos, with the broker's key. It makes a context for each login.

    Raises ValueError if the key can't be used.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        import gssapi
        from gssapi.raw.misc import GSSError

        self.error: type[Exception] = GSSError
        self._gssapi = gssapi
        name = gssapi.Name(options["principal"], gssapi.NameType.kerberos_principal)
        try:
            self._credentials = gssapi.Credentials(
                name=name, usage="accept", store={"keytab": f"FILE:{options['keyTab']}"}
            )
        except self.error as error:
            raise ValueError(f"Kerberos can't use the key ({said(error)})") from None

    def new_context(self) -> Context:
        """The context of one login."""
        context: Context = self._gssapi.SecurityContext(creds=self._credentials, usage="accept")
        return context


class KerberosExchange:
    """One login by Kerberos. ``error`` is the exception type that the context raises."""

    def __init__(self, context: Context, error: type[Exception], names: LocalNames) -> None:
        self.identity: Identity | None = None
        self._context = context
        self._error = error
        self._names = names
        self._has_offered = False

    def step(self, message: bytes, now_ms: int) -> bytes:
        """Answer the client's next message; LoginRefused.

        The steps are: tickets, then the agreement on no security layer. After that the client is
        known.
        """
        if len(message) > MOST_MESSAGE_BYTES:
            raise LoginRefused("the Kerberos message is too long", TOLD)
        try:
            return self._step(message)
        except self._error as error:
            raise LoginRefused(f"Kerberos refuses the ticket: {said(error)}", TOLD) from None
        except NoLocalName as error:
            raise LoginRefused(str(error), TOLD) from None

    def _step(self, message: bytes) -> bytes:
        context = self._context
        if self._has_offered:
            self._accept_identity(context.unwrap(message)[0])
            return b""
        if not context.complete:
            answer = context.step(message)
            if answer or not context.complete:
                return answer or b""
        self._has_offered = True
        return context.wrap(NO_LAYER, False)[0]

    def _accept_identity(self, choice: bytes) -> None:
        if len(choice) < len(NO_LAYER) or choice[0] != NO_LAYER[0]:
            raise LoginRefused("the client asks for a security layer of Kerberos", TOLD)
        try:
            principal = str(self._context.initiator_name)
        except UnicodeDecodeError:
            raise LoginRefused("the name in the ticket isn't UTF-8", TOLD) from None
        name = self._names.name_of(principal)
        self.identity = Identity(Principal(USER, name))


def kerberos_exchanges(settings: ListenerSettings) -> NewExchange:
    """Return the function that makes the Kerberos exchanges of a listener; ConfigError."""
    own = settings.of_mechanism("GSSAPI")
    rules = own.strings(_RULES)
    line = jaas_line(settings, "GSSAPI")
    options = {} if line is None else line.options
    problem = _problem(options, own.text(SERVICE))
    if problem is not None:
        raise own.error(JAAS, None if line is None else "(hidden)", problem)
    try:
        names = LocalNames(rules, options["principal"].rpartition("@")[2])
    except ValueError as error:
        raise own.error(_RULES, ",".join(rules), str(error)) from None
    try:
        acceptor = Acceptor(options)
    except ImportError:
        problem = f"GSSAPI {needs('gssapi', 'gssapi')}"
        raise own.error("sasl.enabled.mechanisms", "GSSAPI", problem) from None
    except ValueError as error:
        raise own.error(JAAS, "(hidden)", str(error)) from None
    return lambda: KerberosExchange(acceptor.new_context(), acceptor.error, names)


def _problem(options: Mapping[str, str], service: str) -> str | None:
    """Why a broker can't use this JAAS line, or None if it can."""
    if not {"keyTab", "principal"} <= options.keys():
        return (
            "must name the broker's key, as in com.sun.security.auth.module.Krb5LoginModule "
            'required keyTab="/etc/kafka.keytab" principal="kafka/HOST@REALM";'
        )
    primary, _, rest = options["principal"].partition("/")
    if "@" not in rest:
        return "the principal must be SERVICE/HOST@REALM"
    if service and primary != service:
        return f"the principal must begin with {service}/, as {SERVICE} says"
    try:
        read_secret(options["keyTab"])
    except UnsafeFile as error:
        return str(error)
    return None


def said(error: Exception) -> str:
    """The message of a Kerberos error in one line."""
    text = str(error).partition("Minor")[2] or str(error)
    return " ".join(text.split()).strip("() :")[:200]
