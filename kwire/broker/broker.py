"""The running broker: handlers ask it for partitions, settings and changes of metadata.

Rules:

- The broker is composed here of parts that don't know the broker: the partitions that it serves
  (``replica_manager``), the changes that it makes and follows (``commits``, ``new_images``), its
  coordinators, the settings in force (``effective_settings``). A part that needs the broker
  declares what it needs, like ``BrokerView``.
- Parts that only some brokers need are imported when they are first needed.
"""

import random as random_module
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from kwire.broker.cold_reads import ColdReads
from kwire.broker.commits import Commits
from kwire.broker.coordinators import Coordinators
from kwire.broker.effective_settings import (
    broker_settings,
    log_config,
    settings_of_topic,
    throttles_of,
)
from kwire.broker.fetch_sessions import FetchSessions
from kwire.broker.flusher import Flusher
from kwire.broker.metrics_counters import Bugs, MetricsCounters
from kwire.broker.new_images import NewImages, authorizer_of, login_lines_of, quotas_of
from kwire.broker.partition import Partition
from kwire.broker.proposals import NOBODY, Asker, Decide
from kwire.broker.replica.replica_manager import ReplicaManager
from kwire.budget.threads import Threads
from kwire.clock import Clock
from kwire.config.broker import BrokerConfig, absolute
from kwire.config.cordoned import NAME as CORDONED
from kwire.config.cordoned import cordoned_entries
from kwire.config.settings import Value
from kwire.errors import ErrorCode, KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.manager import AtStop, LogManager
from kwire.metadata.image import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    MetadataImage,
    TopicImage,
)
from kwire.metadata.store import Guard, MetadataStore

if TYPE_CHECKING:
    from kwire.broker.client_metrics import ClientMetrics
    from kwire.broker.compaction import Compaction
    from kwire.broker.controller_lease import ControllerLease
    from kwire.broker.failure_detector import SuspectedBrokers
    from kwire.broker.groups import Groups
    from kwire.broker.peers import Peers
    from kwire.broker.pending_verification import PendingVerification
    from kwire.broker.producer_ids import ProducerIds
    from kwire.broker.replica.alter_partition_manager import AlterPartitionManager
    from kwire.broker.replica.fetchers import Fetchers
    from kwire.broker.replica.offline_replicas import OfflineReplicas
    from kwire.broker.replica.replica_fetch_connection import Watcher
    from kwire.broker.replica.replica_moves import ReplicaMoves
    from kwire.broker.replica.replica_sessions import ReplicaSessions
    from kwire.broker.share_partitions import SharePartitions
    from kwire.broker.share_states import ShareStates
    from kwire.broker.transactions import Transactions
    from kwire.share.persister import Persister


class Broker:
    """One broker, made of its settings, its logs and its metadata store.

    ``image`` and ``settings`` are the ones in force. A change replaces them and never alters them.
    ``authorizer`` is None if every client may do everything. ``quotas`` is None while no client has
    a quota. ``verified`` has the questions whether producers may write to partitions. ``lease`` is
    None outside of a cluster. ``suspects`` and ``throttles`` are None until they are needed.
    """

    def __init__(
        self,
        config: BrokerConfig,
        log_manager: LogManager,
        store: MetadataStore,
        image: MetadataImage,
        *,
        clock: Clock | None = None,
        random: random_module.Random | None = None,
    ) -> None:
        self.config = config
        self.log_manager = log_manager
        log_manager.ask_for_cordons(self.cordoned_directories)
        self.clock = clock or Clock()
        self.now_ms = self.clock.now_ms
        self.random = random or random_module.Random()
        self.node_id = config.integer("node.id")
        self.advertised_listeners = config.advertised_listeners()
        self.image = image
        self.settings: Mapping[str, Value] = broker_settings(config, image, self.node_id)
        self.counters = MetricsCounters()
        self.bugs = Bugs()
        self.is_stopping = False
        self.create_topic_policy = config.create_topic_policy()
        self.alter_config_policy = config.alter_config_policy()
        self.selects_nearest = config.selects_nearest_replica()
        self.lease: ControllerLease | None = None
        self.suspects: SuspectedBrokers | None = None
        self.throttles = throttles_of(self, None)
        self.watcher: Watcher | None = None
        self.do_afterwards: Callable[[Callable[[], object]], object] = lambda do: do()
        self.fetch_sessions = FetchSessions(self.random)
        self.threads = Threads()
        self.flusher = Flusher(self.clock.steady_ms, self.threads.syncing)
        self.cold_reads = ColdReads(self.threads.cold_reads)
        self.background: trio.Nursery
        self.compaction: Compaction
        self.verified: dict[tuple[str, int, int], PendingVerification] = {}
        self.authorizer = authorizer_of(config, image.acls, self.clock)
        self.login_lines = login_lines_of(config, self.clock)
        self.quotas = quotas_of(self, None, image.client_quotas)
        self.commits = Commits(store, image, self.threads.deciding, self.random)
        self.replica_manager = ReplicaManager(
            self.node_id, log_manager, self.flusher, self._log_config, self.clock, self.threads.logs
        )
        self.replica_manager.in_sync_updates = lambda: self.alter_partition_manager
        self.replica_manager.open_all(image)
        self.coordinators = Coordinators(self)
        self.new_images = NewImages(self, self.replica_manager, self.coordinators)
        self.partition = self.replica_manager.partition  # a method here would cost time
        self.partition_if_served = self.replica_manager.partition_if_served
        self.is_offline = self.replica_manager.is_offline
        self.partitions = self.replica_manager.all
        self.stable_offset = self.replica_manager.stable_offset
        self.leader_of = self.replica_manager.leader_of
        self.offline_replicas = self.replica_manager.offline_replicas
        self.replica = self.replica_manager.replica
        self.hosted = self.replica_manager.hosted
        self.high_watermarks = self.replica_manager.high_watermarks
        self.gone = self.replica_manager.gone
        self.offline_partitions = self.replica_manager.offline
        self.put_strays_aside = self.replica_manager.put_strays_aside
        self.compacts = self.replica_manager.compacts
        self.wake_coordinators = self.coordinators.wake_if_due
        self.forget_deleted_topics = self.coordinators.forget_deleted_topics
        self.look_at_offline = self.new_images.look_at_offline
        self.retry_offline = self.new_images.retry_offline

    @property
    def cluster_id(self) -> str:
        """The cluster's id, 22 characters of base64."""
        return self.image.cluster_id

    @property
    def controller_id(self) -> int:
        """The node id of the controller; a single broker is its own controller."""
        elected = self.image.controller_id
        return self.node_id if elected == -1 else elected

    @cached_property
    def producer_ids(self) -> "ProducerIds":
        """The producer ids that this broker gives out."""
        from kwire.broker.producer_ids import ProducerIds

        return ProducerIds(self.commit)

    @cached_property
    def groups(self) -> "Groups":
        """The groups of this broker."""
        return self.coordinators.groups

    @cached_property
    def transactions(self) -> "Transactions":
        """The transactional ids of this broker."""
        return self.coordinators.transactions

    @cached_property
    def share_states(self) -> "ShareStates":
        """The states of share partitions whose coordinator is this broker."""
        return self.coordinators.share_states

    @cached_property
    def share_partitions(self) -> "SharePartitions":
        """The share partitions that this broker leads."""
        from kwire.broker.share_partitions import SharePartitions

        partitions = SharePartitions(self)
        self.background.start_soon(partitions.run)
        return partitions

    @cached_property
    def persister(self) -> "Persister":
        """The states of all share partitions, whichever broker is their coordinator."""
        from kwire.share.persister import Persister

        return Persister(self)

    @cached_property
    def peers(self) -> "Peers":
        """The other brokers of a cluster."""
        from kwire.broker.peers import Peers

        return Peers(self)

    @cached_property
    def fetchers(self) -> "Fetchers":
        """The tasks that fetch from the leaders of the partitions that this broker follows."""
        from kwire.broker.replica.fetchers import Fetchers

        made = Fetchers(self, self.config.inter_broker_name, self.peers.open_stream)
        self.suspects = made.suspects
        return made

    @cached_property
    def replica_sessions(self) -> "ReplicaSessions":
        """The sessions of followers that fetch from this broker."""
        from kwire.broker.replica.replica_sessions import ReplicaSessions

        return ReplicaSessions(self.random, self.integer)

    @cached_property
    def alter_partition_manager(self) -> "AlterPartitionManager":
        """The commits of ISR changes for the partitions that this broker leads."""
        from kwire.broker.replica.alter_partition_manager import AlterPartitionManager

        updates = AlterPartitionManager(self)
        updates.is_cut_off = self.lease is not None and self.lease.is_cut_off
        if "background" in vars(self):
            self.background.start_soon(updates.run)
        return updates

    @cached_property
    def unusable_replicas(self) -> "OfflineReplicas":
        """The replicas on failed or full disks, whose leadership other brokers take over."""
        from kwire.broker.replica.offline_replicas import OfflineReplicas

        return OfflineReplicas(self, self.replica_manager)

    @cached_property
    def replica_moves(self) -> "ReplicaMoves":
        """The moves between data directories."""
        from kwire.broker.replica.replica_moves import ReplicaMoves

        return ReplicaMoves(self)

    @cached_property
    def client_metrics(self) -> "ClientMetrics":
        """The metrics that clients push."""
        from kwire.broker.client_metrics import ClientMetrics

        return ClientMetrics(self)

    def start_tasks(self, background: trio.Nursery) -> None:
        """Start the tasks of this broker; they end with ``background``."""
        self.background = background
        background.start_soon(self.commits.follow_store, self.new_images.apply_image)
        background.start_soon(self.commits.make_commits)
        background.start_soon(self.replica_manager.run_jobs, self._follow_slice)
        background.start_soon(self.flusher.run)
        self.new_images.follow_leaders()
        if "alter_partition_manager" in vars(self):
            background.start_soon(self.alter_partition_manager.run)
        for topic, load in (
            (OFFSETS_TOPIC, lambda: self.groups),
            (TRANSACTIONS_TOPIC, lambda: self.transactions),
            (SHARE_STATE_TOPIC, lambda: self.share_states),
        ):
            if topic in self.image.topics_by_name:
                load()

    def _follow_slice(self) -> None:
        """Follow the leaders of the logs that were just made; others have room for theirs."""
        self.new_images.follow_leaders()
        self.commits.look_at_held()

    def cut_off(self, is_cut_off: bool) -> None:
        """Note whether this broker is cut off from the store; ``controller_lease`` says it."""
        if "alter_partition_manager" in vars(self):
            self.alter_partition_manager.cut_off(is_cut_off)

    def stop(self) -> None:
        """Refer clients that ask or wait for a coordinator to another broker."""
        self.is_stopping = True
        self.threads.close()
        if self.quotas is not None:
            self.quotas.end_pauses()
        self.coordinators.close()

    def at_stop(self) -> AtStop:
        """The data that a cleanly stopped broker keeps in its data directories."""
        registered = self.image.brokers.get(self.node_id)
        return AtStop(self.high_watermarks(), -1 if registered is None else registered.epoch)

    def topic_by_id(self, topic_id: bytes) -> TopicImage:
        """A topic by its id; KafkaError (UNKNOWN_TOPIC_ID) if no topic has it."""
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """A partition by topic id; KafkaError (UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION)."""
        return self.partition(self.topic_by_id(topic_id).name, index)

    def setting(self, name: str) -> Value:
        """The effective value of a broker setting, dynamic changes included."""
        return self.settings[name]

    def integer(self, name: str) -> int:
        """The effective value of a broker setting that is a whole number."""
        value = self.settings[name]
        assert isinstance(value, int)
        return value

    def cordoned_directories(self) -> list[Path]:
        """The data directories that get no new replicas."""
        cordoned, directories = self.setting(CORDONED), self.setting("log.dirs")
        assert isinstance(cordoned, list)
        assert isinstance(directories, list)
        return [absolute(one) for one in cordoned_entries(cordoned, directories)]

    def topic_settings(self, topic: str) -> dict[str, Value]:
        """The effective settings of a topic."""
        return settings_of_topic(topic, self.image, self.settings)

    def _log_config(self, topic: str) -> LogConfig:
        return log_config(topic, self.image, self.settings)

    async def commit(
        self,
        decide: Decide,
        asker: Asker = NOBODY,
        guard: Guard | None = None,
    ) -> None:
        """Commit the changes that ``decide`` returns; see ``Commits.commit``."""
        await self.commits.commit(decide, asker, guard)

    def commit_under(self, session: Guard) -> None:
        """Make further changes as the broker of this session, in a cluster."""
        self.commits.guard = session
