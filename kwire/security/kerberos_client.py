"""The client's side of SASL GSSAPI (RFC 4752), for commands and brokers that log in by Kerberos.

Rules:

- The JAAS line of ``Krb5LoginModule`` names the key: ``keyTab`` and ``principal``. Tickets that are
  obtained with the key stay in memory, and the Kerberos library renews them. With
  ``useTicketCache=true`` the client uses the ticket of ``kinit`` instead, from ``ticketCache`` or
  from Kerberos's usual place.
- The broker's principal must be ``sasl.kerberos.service.name/HOST``, and the broker has to prove
  it. So a server that only pretends to be the broker learns nothing.
- Both sides agree on no security layer, as in Kafka: TLS protects the connection instead.
- Asking Kerberos's server (KDC) takes time, so a thread makes the messages.

Source: SaslClientAuthenticator, KerberosLogin of Kafka; GssKrb5Client of the JDK.
"""

from collections.abc import Mapping

from kwire.client.errors import SecurityFailure
from kwire.client.secured import Credentials, Messages
from kwire.config.extras import needs
from kwire.config.listener_settings import ListenerSettings
from kwire.config.secret_files import UnsafeFile, read_secret
from kwire.security.jaas_settings import JAAS, jaas_line
from kwire.security.kerberos import NO_LAYER, SERVICE, said

_MODULE = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="…"'
_TICKETS = "MEMORY:kwire"


class Initiator:
    """Logs in with the key or the ticket that ``options`` name; ImportError without gssapi."""

    def __init__(self, options: Mapping[str, str], service: str) -> None:
        import gssapi
        from gssapi.raw.misc import GSSError

        self._gssapi = gssapi
        self._error: type[Exception] = GSSError
        self._options = options
        self._service = service

    def messages(self, host: str) -> Messages:
        """The messages of one login at a host; SecurityFailure."""
        try:
            yield from self._messages(host)
        except self._error as error:
            raise SecurityFailure(f"the login by Kerberos failed: {said(error)}") from None

    def _messages(self, host: str) -> Messages:
        gssapi = self._gssapi
        flag = gssapi.RequirementFlag
        context = gssapi.SecurityContext(
            name=gssapi.Name(f"{self._service}@{host}", gssapi.NameType.hostbased_service),
            creds=self._credentials(),
            flags=[flag.mutual_authentication, flag.integrity],
            usage="initiate",
        )
        answer = yield context.step() or b""
        while not context.complete:
            answer = yield context.step(answer) or b""
        offered = bytes(context.unwrap(answer)[0])
        if not offered or not offered[0] & NO_LAYER[0]:
            raise SecurityFailure("the broker asks for a security layer of Kerberos")
        yield context.wrap(NO_LAYER, False)[0]

    def _credentials(self) -> object:
        gssapi, options = self._gssapi, self._options
        name, store = None, {}
        if "principal" in options:
            name = gssapi.Name(options["principal"], gssapi.NameType.kerberos_principal)
        if "keyTab" in options:
            tickets = f"{_TICKETS}-{options.get('principal', '')}"
            store = {"client_keytab": f"FILE:{options['keyTab']}", "ccache": tickets}
        elif "ticketCache" in options:
            store = {"ccache": f"FILE:{options['ticketCache']}"}
        return gssapi.Credentials(name=name, usage="initiate", store=store or None)


def kerberos_login(settings: ListenerSettings) -> Credentials:
    """The login by Kerberos that these settings describe; ConfigError."""
    own = settings.of_mechanism("GSSAPI")
    line = jaas_line(settings, "GSSAPI")
    options = {} if line is None else line.options
    service = own.text(SERVICE) or _first_part(options)
    problem = _problem(options, service)
    if problem is not None:
        raise own.error(JAAS, None if line is None else "(hidden)", problem)
    try:
        initiator = Initiator(options, service)
    except ImportError:
        problem = f"GSSAPI {needs('gssapi', 'gssapi')}"
        raise own.error("sasl.mechanism", "GSSAPI", problem) from None
    return Credentials("GSSAPI", messages=initiator.messages)


def _first_part(options: Mapping[str, str]) -> str:
    """The part of a principal before the slash: a broker logs in to the same service elsewhere."""
    primary, slash, _ = options.get("principal", "").partition("/")
    return primary if slash else ""


def _problem(options: Mapping[str, str], service: str) -> str | None:
    """Why a client can't log in with this JAAS line, or None if it can."""
    if options.get("useTicketCache", "").lower() != "true":
        if not {"keyTab", "principal"} <= options.keys():
            return f'must name a key and whose it is: {_MODULE} principal="alice@REALM";'
        try:
            read_secret(options["keyTab"])
        except UnsafeFile as error:
            return str(error)
    if not service:
        return f"{SERVICE} must name the first part of the brokers' principal, as in kafka/HOST"
    return None
