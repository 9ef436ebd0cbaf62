"""The SCRAM users with which a new cluster begins: the setting ``kwire.scram.first.users``.

Rules:

- The setting has the form of ``kafka-storage format --add-scram``, and ``;`` separates users:
  ``SCRAM-SHA-512=[name=alice,iterations=8192,salt=…,saltedpassword=…]``. Salt and salted password
  are in base64. ``password=…`` may replace these two.
- A broker that starts creates the users if the cluster has no SCRAM user at all.
- Each of them is created only once. The dynamic config ``kwire.scram.first.users.made`` of all
  brokers lists those that were created. They stay deleted after somebody has deleted them, also if
  no other user is left. An administrator who has deleted all users can put a new name into the
  setting.

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
    """The metadata changes that create the users; ConfigError, whose text shows no secret."""
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


def _new(changes: Sequence[ScramCredentialChanged], image: MetadataImage) -> list[Change]:
    """The changes that create the users which were never created before, and list them."""
    made = image.config(ConfigResourceType.BROKER, "").get(MADE, "")
    before = made.split(",") if made else []
    new = [change for change in changes if change.user not in before]
    if not new:
        return []
    names = ",".join(dict.fromkeys([*before, *(change.user for change in new)]))
    return [*new, ConfigChanged(ConfigResourceType.BROKER, "", MADE, names)]


async def add_first_users(
    config: BrokerConfig, store: MetadataStore, image: MetadataImage
) -> MetadataImage:
    """Create the users of the setting if the cluster has no SCRAM users. Return the resulting
    metadata.

    Raises ConfigError for a wrong setting, and KafkaError if the store refuses the change.
    """
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
