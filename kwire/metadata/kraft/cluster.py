"""Replays the metadata records of a Kafka cluster; gives the changes that make kwire's image of it.

Rules:

- The records of a metadata transaction take effect together when the transaction ends (KIP-868).
  The records of an aborted or unfinished transaction have no effect.
- A change of a partition's leader begins a new leader epoch. Every change of a partition raises its
  partition epoch.
- kwire takes the cluster over as its only broker. So this node has to hold every partition with all
  acknowledged records. A replica holds them if it is in sync, or an eligible leader (KIP-966), or
  the only replica. After the takeover the node is the only replica and the leader of each
  partition, in a new leader epoch.
- A feature whose level requests may lower keeps it, up to the highest level that kwire supports.
- SCRAM credentials and client quotas stay unchanged. Delegation tokens are counted but not taken
  over, because they live only for some days, and their owners ask for new ones.

Source: MetadataDelta, PartitionRegistration, BatchLoader of Kafka.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from kwire.metadata.acls import AclBinding, AclsCreated, in_changes
from kwire.metadata.changes import (
    Change,
    ConfigChanged,
    FeatureLevelChanged,
    TopicCreated,
)
from kwire.metadata.features import CHANGES_VERSION, ONLY_RAISED, SUPPORTED
from kwire.metadata.image import ConfigResource, ConfigResourceType, PartitionImage, TopicImage
from kwire.metadata.kraft.access_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kwire.metadata.kraft.cluster_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
)
from kwire.metadata.kraft.metadata_record import MetadataRecord
from kwire.metadata.kraft.topic_records import (
    ClearElrRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kwire.metadata.quotas import (
    ClientQuotaChanged,
    QuotaEntity,
    apply_quota,
    entity_of,
    quota_changes,
)
from kwire.metadata.scram import MECHANISMS, ScramCredential, ScramUser, credential_changes
from kwire.protocol.types import Schema

_NO_LEADER_CHANGE = -2
_NOT_TAKEN_OVER = {"DelegationTokenRecord": "delegation tokens"}


class KraftPartition(NamedTuple):
    """A partition in Kafka's metadata; ``safe_replicas`` have all acknowledged records."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    eligible_leader_replicas: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()

    @property
    def safe_replicas(self) -> tuple[int, ...]:
        """The replicas that may become leader without losing acknowledged records."""
        if len(self.replicas) == 1:
            return self.replicas
        return self.isr + self.eligible_leader_replicas


class KraftTopic(NamedTuple):
    """A topic and its partitions by number."""

    name: str
    topic_id: bytes
    partitions: dict[int, KraftPartition]


class NotOneBroker(Exception):
    """The node alone can't serve the cluster; the text names the partition that it lacks."""


class KraftCluster:
    """The metadata of a cluster. Call ``apply`` for its records in order, then ``changes``."""

    def __init__(self) -> None:
        self.topics: dict[bytes, KraftTopic] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.acls: dict[bytes, AclBinding] = {}
        self.credentials: dict[ScramUser, ScramCredential] = {}
        self.quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        self.next_producer_id = 0
        self.not_taken_over: Counter[str] = Counter()
        self._transaction: list[MetadataRecord] | None = None

    def apply(self, record: MetadataRecord) -> None:
        """Replay a record; KeyError or ValueError if it contradicts the records before it."""
        fields = record.fields
        if isinstance(fields, BeginTransactionRecord):
            self._transaction = []
        elif isinstance(fields, AbortTransactionRecord):
            self._transaction = None
        elif isinstance(fields, EndTransactionRecord):
            records, self._transaction = self._transaction or [], None
            for item in records:
                self._apply_fields(item.fields)
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self._apply_fields(fields)

    def _apply_fields(self, fields: Schema) -> None:
        if isinstance(fields, TopicRecord):
            self.topics[fields.topic_id] = KraftTopic(fields.name, fields.topic_id, {})
        elif isinstance(fields, PartitionRecord):
            self._put_partition(fields)
        elif isinstance(fields, PartitionChangeRecord):
            self._change_partition(fields)
        elif isinstance(fields, RemoveTopicRecord):
            topic = self.topics.pop(fields.topic_id)
            self.configs.pop((ConfigResourceType.TOPIC, topic.name), None)
        elif isinstance(fields, ConfigRecord):
            self._set_config(fields)
        elif isinstance(fields, FeatureLevelRecord):
            self.features[fields.name] = fields.feature_level
        elif isinstance(fields, ProducerIdsRecord):
            self.next_producer_id = max(self.next_producer_id, fields.next_producer_id)
        elif isinstance(fields, ClearElrRecord):
            self._clear_eligible_leaders(fields.topic_name)
        else:
            self._apply_access(fields)

    def _apply_access(self, fields: Schema) -> None:
        """Replay a record of credentials, ACLs, tokens or quotas."""
        if isinstance(fields, AccessControlEntryRecord):
            self.acls[fields.id] = AclBinding(
                fields.resource_type,
                fields.resource_name,
                fields.pattern_type,
                fields.principal,
                fields.host,
                fields.operation,
                fields.permission_type,
            )
        elif isinstance(fields, RemoveAccessControlEntryRecord):
            del self.acls[fields.id]
        elif isinstance(fields, UserScramCredentialRecord):
            keys = fields.salt, fields.stored_key, fields.server_key
            credential = ScramCredential(*keys, fields.iterations)
            self.credentials[MECHANISMS[fields.mechanism], fields.name] = credential
        elif isinstance(fields, RemoveUserScramCredentialRecord):
            del self.credentials[MECHANISMS[fields.mechanism], fields.name]
        elif isinstance(fields, ClientQuotaRecord):
            entity = entity_of((one.entity_type, one.entity_name) for one in fields.entity)
            value = None if fields.remove else fields.value
            apply_quota(self.quotas, ClientQuotaChanged(entity, fields.key, value))
        elif type(fields).__name__ in _NOT_TAKEN_OVER:
            self.not_taken_over[_NOT_TAKEN_OVER[type(fields).__name__]] += 1

    def _put_partition(self, fields: PartitionRecord) -> None:
        self.topics[fields.topic_id].partitions[fields.partition_id] = KraftPartition(
            tuple(fields.replicas),
            tuple(fields.isr),
            fields.leader,
            fields.leader_epoch,
            fields.partition_epoch,
            tuple(fields.eligible_leader_replicas or ()),
            tuple(fields.directories),
        )

    def _change_partition(self, fields: PartitionChangeRecord) -> None:
        partitions = self.topics[fields.topic_id].partitions
        old = partitions[fields.partition_id]
        new = old._replace(partition_epoch=old.partition_epoch + 1)
        if fields.leader != _NO_LEADER_CHANGE:
            new = new._replace(leader=fields.leader, leader_epoch=old.leader_epoch + 1)
        if fields.replicas is not None:
            new = new._replace(replicas=tuple(fields.replicas))
        if fields.isr is not None:
            new = new._replace(isr=tuple(fields.isr))
        if fields.eligible_leader_replicas is not None:
            new = new._replace(eligible_leader_replicas=tuple(fields.eligible_leader_replicas))
        if fields.directories is not None:
            new = new._replace(directories=tuple(fields.directories))
        partitions[fields.partition_id] = new

    def _set_config(self, fields: ConfigRecord) -> None:
        resource = (ConfigResourceType(fields.resource_type), fields.resource_name)
        values = self.configs.setdefault(resource, {})
        if fields.value is None:
            values.pop(fields.name, None)
        else:
            values[fields.name] = fields.value

    def _clear_eligible_leaders(self, name: str) -> None:
        for topic in self.topics.values():
            if name in ("", topic.name):
                for index, partition in topic.partitions.items():
                    topic.partitions[index] = partition._replace(eligible_leader_replicas=())

    def changes(self, node_id: int) -> list[Change]:
        """The changes that make the image of a cluster with only this broker, except producer ids.

        Raises NotOneBroker if the node lacks a partition, or may lack acknowledged records of one.
        """
        changes: list[Change] = [
            ConfigChanged(resource_type, resource_name, name, value)
            for (resource_type, resource_name), values in self.configs.items()
            for name, value in values.items()
        ]
        changes += [TopicCreated(_taken_over(topic, node_id)) for topic in self.topics.values()]
        changes += in_changes(AclsCreated, self.acls.values())
        changes += credential_changes(self.credentials)
        changes += quota_changes(self.quotas)
        changes += [
            FeatureLevelChanged(name, min(self.features.get(name, 0), levels.max_level))
            for name, levels in SUPPORTED.items()
            if name not in ONLY_RAISED and name != CHANGES_VERSION
        ]
        return changes


def _taken_over(topic: KraftTopic, node_id: int) -> TopicImage:
    if sorted(topic.partitions) != list(range(len(topic.partitions))):
        raise NotOneBroker(
            f"topic {topic.name} lacks partitions: it has only {sorted(topic.partitions)}"
        )
    images = []
    for index in range(len(topic.partitions)):
        partition = topic.partitions[index]
        if node_id not in partition.replicas:
            raise NotOneBroker(f"{topic.name}-{index} has no replica on node {node_id}")
        if node_id not in partition.safe_replicas:
            raise NotOneBroker(
                f"node {node_id} is not in sync for {topic.name}-{index}: "
                "another broker may hold acknowledged records that this node lacks"
            )
        images.append(
            PartitionImage(
                node_id,
                partition.leader_epoch + 1,
                (node_id,),
                (node_id,),
                partition.partition_epoch + 1,
            )
        )
    return TopicImage(topic.name, topic.topic_id, tuple(images), len(images))
