"""Quix Streams, exactly once."""

import sys

from quixstreams import Application

bootstrap, source, target, name = sys.argv[1:]
app = Application(
    bootstrap,
    consumer_group=name,
    auto_offset_reset="earliest",
    commit_interval=0.2,
    processing_guarantee="exactly-once",
    consumer_extra_config={"session.timeout.ms": 6000},
)
values = app.dataframe(app.topic(source, value_deserializer="str"))
values.apply(str.upper).to_topic(app.topic(target, value_serializer="str"))
app.run()
