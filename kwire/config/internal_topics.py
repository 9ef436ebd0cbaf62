"""The topics of the coordinators: their names, and the settings of their number of replicas."""

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
SCHEMAS_TOPIC = "_schemas"
"""The topic of the schema registry; for Kafka it is a topic like any other."""

FACTORS = {
    OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTIONS_TOPIC: "transaction.state.log.replication.factor",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic.replication.factor",
}
"""The settings that say how many replicas these topics get."""
