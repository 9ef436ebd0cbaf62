"""Warns in the log of configs that a client has set although they have no effect in kwire.

Kafka accepts and keeps such configs, and the tests of stock admin clients count on that. But a
person who sets a config expects an effect.
"""

import logging
from collections.abc import Iterable

from kwire.config.broker import BrokerConfig
from kwire.config.without_effect import is_among, warnings
from kwire.metadata.image import ConfigResource, ConfigResourceType

log = logging.getLogger(__name__)

_NOT_IN_GROUPS = ("streams.assignor.offload.enable", "streams.num.warmup.replicas")
_SHOWN = 20
"""How many names the warning shows; a request may set thousands."""


def warn(
    resource: ConfigResource,
    names: Iterable[str],
    config: BrokerConfig,
    *,
    takes_telemetry: bool,
) -> None:
    """Log a warning if ``names``, which were set for a resource, have configs without effect.

    ``config`` is the configuration with which the broker was started.
    """
    kind, resource_name = resource
    asked = {name: ascii(name)[1:-1] for name in names}
    if kind is ConfigResourceType.BROKER:
        for warning in warnings(asked, config.secured_listeners):
            log.warning("set for broker %a and kept: %s", resource_name, warning)
        return
    if kind is ConfigResourceType.GROUP:
        asked = {name: text for name, text in asked.items() if is_among(name, _NOT_IN_GROUPS)}
        reason = "there are no warm-up tasks, and assignments need no switch"
    elif kind is ConfigResourceType.CLIENT_METRICS and not takes_telemetry:
        reason = "nothing shows what clients push: start the broker with --http HOST:PORT"
    else:
        return
    if asked:
        shown = ", ".join(list(asked.values())[:_SHOWN])
        log.warning(
            "set for %s %a and kept, without effect here: %s; %s",
            kind.name.lower().replace("_", " "),
            resource_name,
            shown,
            reason,
        )
