"""Applies each new image of the metadata to the parts of the broker, in the right order.

Rules:

- The authorizer takes the new ACLs first, and the settings change before the replicas do. So no
  request that uses the new image is judged by old rights, or served with old settings.
- Replicas take their roles in memory, and are fetched from their new leaders, before a log is
  opened or deleted. Then the replicas whose logs were opened are fetched, too.
- The modules of authorizers, logins, quotas and throttles are imported only if a cluster has them.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio

from kwire.broker.commits import changes_broker
from kwire.broker.coordinators import Coordinators
from kwire.broker.effective_settings import broker_settings, throttles_of
from kwire.broker.metrics_counters import MetricsCounters
from kwire.broker.replica.replica_manager import LogJob, ReplicaManager
from kwire.clock import Clock
from kwire.config.broker import BrokerConfig
from kwire.config.settings import Value
from kwire.log.manager import LogManager
from kwire.metadata.acls import Acls, AclsCreated, AclsDeleted
from kwire.metadata.changes import BrokerChanged, BrokerRegistered, BrokerUnregistered, Change
from kwire.metadata.image import MetadataImage
from kwire.metadata.quotas import ClientQuotas

if TYPE_CHECKING:
    from kwire.broker.failure_detector import SuspectedBrokers
    from kwire.broker.quotas import Metered, Quotas
    from kwire.broker.replica.alter_partition_manager import AlterPartitionManager
    from kwire.broker.replica.fetchers import Fetchers
    from kwire.broker.replica.offline_replicas import OfflineReplicas
    from kwire.broker.replica.throttles import Throttles
    from kwire.security.authorizer import Authorizer
    from kwire.security.login_lines import LoginLines

_BROKERS = (BrokerRegistered, BrokerChanged, BrokerUnregistered)
"""Changes after which other followers may be in sync."""


def authorizer_of(config: BrokerConfig, acls: Acls, clock: Clock) -> "Authorizer | None":
    """The authorizer that decides by these ACLs; None if every client may do everything."""
    wanted = config.authorizer()
    if wanted is None:
        return None
    from kwire.security.audit import follow_level
    from kwire.security.authorizer import Authorizer

    authorizer = Authorizer.of(wanted, acls, clock.steady_ms)
    follow_level(authorizer)
    return authorizer


def login_lines_of(config: BrokerConfig, clock: Clock) -> "LoginLines | None":
    """The lines of the audit log about logins; None for a broker with PLAINTEXT listeners only."""
    if not config.secured_listeners:
        return None
    from kwire.security.login_lines import LoginLines

    return LoginLines(clock.steady_ms)


async def tell_authorizer(authorizer: "Authorizer", changes: Sequence[Change]) -> None:
    """Have the authorizer take the ACLs of a commit; other tasks have their turn in between."""
    for change in changes:
        if isinstance(change, AclsCreated | AclsDeleted):
            forgotten = authorizer.apply(change)
            await trio.lowlevel.checkpoint()
            while forgotten:
                forgotten.pop()
                await trio.lowlevel.checkpoint()


def quotas_of(broker: "Metered", before: "Quotas | None", wanted: ClientQuotas) -> "Quotas | None":
    """The quotas in force when the cluster has these client quotas; None if no client has any."""
    if before is None and not wanted:
        return None
    from kwire.broker.quotas import followed

    return followed(before, broker, wanted)


class InformedBroker(Protocol):
    """The parts of a broker that images change; ``suspects`` is None until it follows others."""

    config: BrokerConfig
    node_id: int
    clock: Clock
    counters: MetricsCounters
    log_manager: LogManager
    image: MetadataImage
    settings: Mapping[str, Value]
    authorizer: "Authorizer | None"
    quotas: "Quotas | None"
    throttles: "Throttles | None"
    suspects: "SuspectedBrokers | None"

    @property
    def fetchers(self) -> "Fetchers":
        """The tasks that fetch from the leaders of the partitions that the broker follows."""

    @property
    def alter_partition_manager(self) -> "AlterPartitionManager":
        """The commits of ISR changes for the partitions that the broker leads."""

    @property
    def unusable_replicas(self) -> "OfflineReplicas":
        """The replicas that other brokers take over."""

    def integer(self, name: str) -> int:
        """The effective value of a setting that is a whole number."""


class NewImages:
    """Applies the images that one broker follows to its parts."""

    def __init__(
        self, broker: InformedBroker, served: ReplicaManager, coordinators: Coordinators
    ) -> None:
        self._broker = broker
        self._served = served
        self._coordinators = coordinators
        self._has_set_aside = False

    async def apply_image(self, image: MetadataImage, changes: Sequence[Change]) -> LogJob | None:
        """Put an image in force, which these changes have made from the one before.

        Returns the job that makes and deletes the logs of a large commit; None if all is done.
        """
        broker = self._broker
        if image.client_quotas is not broker.image.client_quotas:
            broker.quotas = quotas_of(broker, broker.quotas, image.client_quotas)
        if broker.authorizer is not None:
            await tell_authorizer(broker.authorizer, changes)
        broker.image = image
        if await changes_broker(changes):
            broker.settings = broker_settings(broker.config, image, broker.node_id)
            broker.throttles = throttles_of(broker, broker.throttles)
            if broker.suspects is not None:
                broker.fetchers.place(())  # more or fewer tasks may be needed
        if broker.suspects is not None:
            broker.suspects.apply_image(image)
        await self._served.take_roles(image, changes)
        self.follow_leaders()
        job = await self._served.publish(image, changes)
        self.follow_leaders()
        if any(
            isinstance(change, _BROKERS) for change in changes
        ) and "alter_partition_manager" in vars(broker):
            broker.alter_partition_manager.brokers_changed()
        self._coordinators.follow(changes)
        if job is not None:
            job.at_end = partial(self._coordinators.follow, changes)
        return job

    def follow_leaders(self) -> None:
        """Fetch each followed partition from its present leader."""
        moved = self._served.moved_followers()
        if moved:
            self._broker.fetchers.place(moved)

    def look_at_offline(self) -> None:
        """Let other brokers take over replicas that are offline or on full disks here."""
        directories = self._broker.log_manager.data_directories
        is_needed = any(data.health.is_useless for data in directories)
        if is_needed or self._has_set_aside or self._served.offline():
            self._has_set_aside = self._broker.unusable_replicas.give_up_replicas()

    async def retry_offline(self) -> None:
        """Try again to open partitions whose logs couldn't be made, perhaps for lack of space."""
        before = len(self._served.offline())
        await self._served.retry_offline()
        self.follow_leaders()
        if len(self._served.offline()) < before:
            self._coordinators.look_again()
