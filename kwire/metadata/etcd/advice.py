"""What to do about an endpoint that doesn't answer as etcd does, and that waiting can't mend.

Rules:

- An endpoint that isn't reached, is silent, closes the connection, or stands behind a proxy that
  says so (HTTP 502, 503, 504) may answer later. There is no advice for it.
- Advice is one line that names the endpoint and what to change.
"""

import ssl

from kwire.config.metadata_store import SETTING
from kwire.metadata.etcd.gateway import NotEtcd
from kwire.metadata.etcd.http_client import NotHttp

_EXPIRED = 10
_OTHER_NAMES = {62, 64}
_NOT_TRUSTED = {18, 19, 20, 21}
"""OpenSSL's numbers of what is wrong with a certificate (X509_V_ERR_…)."""

_NO_TLS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE"}
"""OpenSSL's names of what it says to an answer that isn't TLS."""

_MAY_PASS = {429, 500, 502, 503, 504}
"""Statuses of HTTP that come from a proxy whose etcd isn't there yet."""


def advice(error: BaseException, endpoint: str) -> str | None:
    """What to do about the error of an endpoint (``host:port``); None if it may pass."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLCertVerificationError):
            return _of_certificate(found, endpoint)
        if isinstance(found, ssl.SSLError):
            return _of_tls(found, endpoint)
        if isinstance(found, NotEtcd):
            return _of_answer(found, endpoint)
        if isinstance(found, NotHttp):
            return _no_etcd(endpoint, str(found))
        found = found.__cause__ or found.__context__
    return None


def _of_certificate(error: ssl.SSLCertVerificationError, endpoint: str) -> str:
    problem, host = error.verify_message, endpoint.rpartition(":")[0]
    if error.verify_code in _OTHER_NAMES:
        return (
            f"etcd at {endpoint} shows a certificate for other names: {problem}; give etcd a "
            f"certificate that has {host} among its subject alternative names (SAN), because a "
            f"common name alone doesn't count, or write a name of the certificate in {SETTING}"
        )
    if error.verify_code == _EXPIRED:
        return f"etcd at {endpoint} shows a certificate that has expired; give etcd a new one"
    if error.verify_code in _NOT_TRUSTED:
        return (
            f"etcd at {endpoint} shows a certificate that isn't trusted: {problem}; set "
            f"{SETTING}.tls.ca.file to the CA's certificate"
        )
    return f"etcd at {endpoint} shows a certificate that can't be used: {problem}; give it another"


def _of_tls(error: ssl.SSLError, endpoint: str) -> str | None:
    reason = error.reason or ""
    if reason in _NO_TLS:
        return f"etcd at {endpoint} speaks no TLS: write etcd:// instead of etcds:// in {SETTING}"
    if "_ALERT_" in reason:
        _, _, problem = reason.partition("_ALERT_")
        return (
            f"etcd at {endpoint} refuses this broker's certificate, or that there is none "
            f"({problem.replace('_', ' ').lower()}): set {SETTING}.tls.certificate.file and "
            f"{SETTING}.tls.key.file to a certificate of the CA that etcd trusts"
        )
    return None


def _of_answer(error: NotEtcd, endpoint: str) -> str | None:
    if error.status in _MAY_PASS:
        return None
    if b"HTTPS" in error.content:
        return f"etcd at {endpoint} speaks TLS: write etcds:// instead of etcd:// in {SETTING}"
    if error.status in (401, 403, 407):
        return (
            f"a proxy at {endpoint} wants a login of its own: {error.message}; name the address "
            f"of etcd itself in {SETTING}"
        )
    return _no_etcd(endpoint, error.message)


def _no_etcd(endpoint: str, answer: str) -> str:
    return (
        f"no etcd answers at {endpoint}: {answer}; name etcd's client port in {SETTING} "
        "(2379, not the peers' 2380), and start an etcd that has a configuration file with "
        "enable-grpc-gateway: true"
    )
