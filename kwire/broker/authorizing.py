"""A broker's authorizer, which the settings choose. Without one, every client may do everything.

The modules of authorizers are imported only if the settings name one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from kwire.config.broker import BrokerConfig
from kwire.metadata.acls import Acls, AclsCreated, AclsDeleted
from kwire.metadata.changes import Change

if TYPE_CHECKING:
    from kwire.security.authorizer import Authorizer


def authorizer_of(config: BrokerConfig, acls: Acls) -> "Authorizer | None":
    """The authorizer that decides by these ACLs; None if every client may do everything."""
    wanted = config.authorizer()
    if wanted is None:
        return None
    from kwire.security.audit import follow_level
    from kwire.security.authorizer import Authorizer

    authorizer = Authorizer.of(wanted, acls)
    follow_level(authorizer)
    return authorizer


async def tell_authorizer(authorizer: "Authorizer", changes: Sequence[Change]) -> None:
    """Have the authorizer take the ACLs of a commit; other tasks have their turn in between."""
    for change in changes:
        if isinstance(change, AclsCreated | AclsDeleted):
            forgotten = authorizer.apply(change)
            await trio.lowlevel.checkpoint()
            while forgotten:
                forgotten.pop()
                await trio.lowlevel.checkpoint()
