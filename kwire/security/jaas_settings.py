"""The JAAS lines in the settings of a listener or a client, and the logins that they contain."""

from kwire.client.secured import Credentials
from kwire.config.listener_settings import ListenerSettings
from kwire.security.jaas import JaasError, JaasLine, parse_jaas

JAAS = "sasl.jaas.config"
_OF_TOKENS = "tokenauth"


def jaas_line(settings: ListenerSettings, mechanism: str) -> JaasLine | None:
    """The JAAS line for a mechanism, or None if the settings have none.

    Raises ConfigError, whose text never shows the line.
    """
    of_mechanism = settings.of_mechanism(mechanism)
    text = of_mechanism.text(JAAS)
    if not text:
        return None
    try:
        return parse_jaas(text)
    except JaasError as error:
        raise of_mechanism.error(JAAS, "(hidden)", str(error)) from None


def own_login(settings: ListenerSettings, mechanism: str) -> Credentials:
    """The user name and the password with which the owner of these settings logs in; ConfigError.

    With ``tokenauth="true"`` in the line they are the id and the HMAC of a delegation token, as for
    Kafka's clients.
    """
    line = jaas_line(settings, mechanism)
    if line is None or not {"username", "password"} <= line.options.keys():
        problem = 'must have the name and password of a login: username="…" password="…"'
        shown = None if line is None else "(hidden)"
        raise settings.of_mechanism(mechanism).error(JAAS, shown, problem)
    is_token = line.options.get(_OF_TOKENS, "").lower() == "true"
    return Credentials(mechanism, line.options["username"], line.options["password"], is_token)
