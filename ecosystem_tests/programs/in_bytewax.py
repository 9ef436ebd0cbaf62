"""Bytewax, which keeps its offsets in files of its own."""

import sys
from datetime import timedelta
from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

bootstrap, source, target, name = sys.argv[1:]
flow = Dataflow(name)
records = op.input("read", flow, KafkaSource([bootstrap], [source]))
capitals = op.map("capitals", records, lambda one: KafkaSinkMessage(one.key, one.value.upper()))
op.output("write", capitals, KafkaSink([bootstrap], target))

offsets = Path(f"offsets-{name}")
if not offsets.exists():
    offsets.mkdir()
    init_db_dir(offsets, 1)
cli_main(
    flow,
    epoch_interval=timedelta(seconds=0.2),
    recovery_config=RecoveryConfig(str(offsets), backup_interval=timedelta()),
)
