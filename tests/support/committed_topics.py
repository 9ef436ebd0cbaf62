"""Topics that are there without a request, for tests that have a broker and no way to log in."""

from random import Random
from typing import Any

from kwire.broker.broker import Broker
from kwire.metadata.changes import Change
from kwire.metadata.controller import NewTopic, create_topic
from kwire.metadata.image import MetadataImage


async def commit_topic(
    broker: Broker,
    name: str,
    partitions: int = 1,
    *,
    random: Random | None = None,
    **configs: Any,
) -> bytes:
    """Commit a topic to the metadata; its id. ``cleanup_policy="compact"`` is a setting.

    ``random`` draws the id, for tests that need the same one again.
    """
    settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
    wanted = NewTopic(name, partitions, 1, configs=settings)

    def decide(image: MetadataImage) -> list[Change]:
        return list(create_topic(image, wanted, random or broker.random))

    await broker.commit(decide)
    return broker.image.topics_by_name[name].topic_id
