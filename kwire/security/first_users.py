"""The SCRAM users with which a new cluster begins: the setting ``kwire.scram.first.users``.

Rules:

- The setting has the form of ``kafka-storage format --add-scram``, and ``;`` separates users:
  ``SCRAM-SHA-512=[name=alice,iterations=8192,salt=…,saltedpassword=…]``. Salt and salted password
  are base64. ``password=…`` may stand instead of the two.
- It counts while the cluster has no SCRAM user at all, at each start.
- The dynamic config ``kwire.scram.first.users.made`` of all brokers names those that were made.
  They don't come back, also when every user was deleted. Who has locked everybody out names a user
  whom the cluster never had.

Source: ScramParser of Kafka; KIP-900.
"""

import logging
import re
from base64 import b64decode
from collections.abc import Sequence
from contextlib import suppress
from secrets import token_bytes

from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.metadata.changes import Change, ConfigChanged
from kwire.metadata.features import CHANGES_VERSION, CREDENTIALS_LEVEL
from kwire.metadata.image import ConfigResourceType, MetadataImage
from kwire.metadata.scram import (
    HASHES,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredentialChanged,
    credential_of,
    salted,
)
from kwire.metadata.store import MetadataStore, RevisionConflict

log = logging.getLogger(__name__)

SETTING = "kwire.scram.first.users"
MADE = "kwire.scram.first.users.made"
_USER = re.compile(r"([A-Z0-9-]+)=\[(.*)\]")
_ALLOWED = (
    "must be users as in SCRAM-SHA-512=[name=alice,iterations=8192,salt=BASE64,"
    "saltedpassword=BASE64], with ; between them"
)


def first_users(text: str) -> list[ScramCredentialChanged]:
    """The changes that make the users of the setting; ConfigError, which shows no secret."""
    try:
        return [_user(part.strip()) for part in text.split(";") if part.strip()]
    except (ValueError, KeyError):
        raise ConfigError(SETTING, "(hidden)", _ALLOWED) from None


def _user(text: str) -> ScramCredentialChanged:
    """Parse one user; ValueError, KeyError."""
    found = _USER.fullmatch(text)
    if found is None or found[1] not in HASHES:
        raise ValueError("no user of SCRAM")
    mechanism = found[1]
    pairs = (part.split("=", 1) for part in found[2].split(","))
    values = {name.strip(): value.strip().strip('"') for name, value in pairs}
    iterations = int(values.get("iterations", MIN_ITERATIONS))
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS or not values["name"]:
        raise ValueError("no name, or too few or too many iterations")
    if "password" in values:
        salt = token_bytes(16)
        secret = salted(mechanism, values["password"].encode(), salt, iterations)
    else:
        salt = b64decode(values["salt"], validate=True)
        secret = b64decode(values["saltedpassword"], validate=True)
    credential = credential_of(mechanism, secret, salt, iterations)
    return ScramCredentialChanged(mechanism, values["name"], credential)


def _new(asked: Sequence[ScramCredentialChanged], image: MetadataImage) -> list[Change]:
    """The changes that make those users that were never made, and name them."""
    made = image.config(ConfigResourceType.BROKER, "").get(MADE, "")
    before = made.split(",") if made else []
    new = [change for change in asked if change.user not in before]
    if not new:
        return []
    names = ",".join(dict.fromkeys([*before, *(change.user for change in new)]))
    return [*new, ConfigChanged(ConfigResourceType.BROKER, "", MADE, names)]


async def add_first_users(
    config: BrokerConfig, store: MetadataStore, image: MetadataImage
) -> MetadataImage:
    """The metadata with the users of the setting, if there were none; ConfigError, KafkaError."""
    asked = first_users(str(config[SETTING]))
    while not image.scram_credentials:
        changes = _new(asked, image)
        if not changes:
            break
        if image.feature_level(CHANGES_VERSION) < CREDENTIALS_LEVEL:
            log.warning(
                "%s has no effect: it needs level %d of %s",
                *(SETTING, CREDENTIALS_LEVEL, CHANGES_VERSION),
            )
            break
        with suppress(RevisionConflict):  # another broker of the cluster has changed something
            await store.commit(image.revision, changes)
        image = await store.read()
    return image
