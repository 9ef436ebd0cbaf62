"""Faust, as faust-streaming goes on with it."""

import sys

import faust

bootstrap, source, target, name = sys.argv[1:]
app = faust.App(
    name,
    broker=f"kafka://{bootstrap}",
    store="memory://",
    web_enabled=False,
    topic_disable_leader=True,
    consumer_auto_offset_reset="earliest",
    broker_commit_interval=0.2,
    broker_session_timeout=6,
    broker_heartbeat_interval=1,
)
output = app.topic(target, value_serializer="raw")


@app.agent(app.topic(source, value_serializer="raw"))
async def capitals(values: faust.StreamT[bytes]) -> None:
    """Write each value in capitals."""
    async for value in values:
        await output.send(value=value.upper())


faust.Worker(app, loglevel="warning").execute_from_commandline()
