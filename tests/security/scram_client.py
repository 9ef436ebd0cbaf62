"""The client's side of a SCRAM login, with a delegation token if wanted."""

import hashlib
import hmac
from base64 import b64decode, b64encode


class ScramClient:
    """The messages of one login; the password of a token is its HMAC in base64."""

    def __init__(self, name, user, password, *, by_token=False, extensions=None):
        self._name = name
        self._password = password
        given = ",tokenauth=true" if by_token else ""
        self._bare = f"n={user},r=nonce{given if extensions is None else extensions}"

    def first(self):
        """The first message."""
        return f"n,,{self._bare}".encode()

    def last(self, challenge):
        """The last message, with the proof."""
        challenge = challenge.decode()
        parts = dict(part.split("=", 1) for part in challenge.split(","))
        salt, iterations = b64decode(parts["s"]), int(parts["i"])
        salted = hashlib.pbkdf2_hmac(self._name, self._password, salt, iterations)
        key = hmac.digest(salted, b"Client Key", self._name)
        without_proof = f"c=biws,r={parts['r']}"
        signed = f"{self._bare},{challenge},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(self._name, key).digest(), signed, self._name)
        proof = b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        return f"{without_proof},p={proof}".encode()
