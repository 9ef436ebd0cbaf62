"""Tokens for OAUTHBEARER that tests sign themselves, and what each kind of client needs for them.

Brokers read the public key from a JWKS file, Java clients read the token from a file. Apache Kafka
opens only those URLs that a Java property names: ``JAVA_TOOL_OPTIONS`` has it.
"""

import json
import time
from pathlib import Path
from typing import Any

import jwt
from aiokafka.abc import AbstractTokenProvider
from cryptography.hazmat.primitives.asymmetric import rsa
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

ISSUER, AUDIENCE = "https://issuer.test", "kafka"
LIFE_S = 3600
_JAVA = "org.apache.kafka.common.security.oauthbearer"
LINE = f"{_JAVA}.OAuthBearerLoginModule required;"
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


class Issuer:
    """Signs tokens; ``environment`` is for the Java programs that read its files."""

    def __init__(self, directory: Path, user: str) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        self.user = user
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        keys = directory / "jwks.json"
        keys.write_text(json.dumps({"keys": [{**public, "kid": "k", "use": "sig"}]}))
        token = directory / "token.jwt"
        token.touch(mode=0o600)
        token.write_text(self.token())
        self.keys_url, self.token_url = keys.as_uri(), token.as_uri()
        self.environment = {"JAVA_TOOL_OPTIONS": f"-D{ALLOWED}={self.keys_url},{self.token_url}"}

    def token(self, **claims: Any) -> str:
        """A token of the user; ``claims`` are others than usual."""
        now_s = int(time.time())
        usual = {"sub": self.user, "iss": ISSUER, "aud": AUDIENCE, "iat": now_s}
        usual |= {"exp": now_s + LIFE_S, **claims}
        return jwt.encode(usual, self._key, "RS256", headers={"kid": "k"})

    def listener_settings(self, listener: str) -> dict[str, str]:
        """Kafka's settings for a listener that takes these tokens."""
        prefix = f"listener.name.{listener}.oauthbearer."
        return {
            f"{prefix}sasl.jaas.config": LINE,
            f"{prefix}sasl.server.callback.handler.class": (
                f"{_JAVA}.OAuthBearerValidatorCallbackHandler"
            ),
            "sasl.oauthbearer.jwks.endpoint.url": self.keys_url,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }

    def java(self) -> dict[str, str]:
        """The settings of a Java client, beside its JAAS line."""
        return {
            "sasl.oauthbearer.token.endpoint.url": self.token_url,
            "sasl.login.callback.handler.class": f"{_JAVA}.OAuthBearerLoginCallbackHandler",
        }


class ForKafkaPython(KafkaPythonTokenProvider):  # type: ignore[misc]
    """What kafka-python asks for a token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        """The token."""
        return self._token


class ForAiokafka(AbstractTokenProvider):  # type: ignore[misc]
    """What aiokafka asks for a token."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        """The token."""
        return self._token
