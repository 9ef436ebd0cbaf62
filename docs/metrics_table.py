"""docs/METRICS.md: every metric with what it says, made from the table of kwire/metrics.

`make docs` runs this; tests/test_metrics_doc.py fails when the page isn't what the table says.
"""

from itertools import groupby
from pathlib import Path

from kwire.metrics.definitions import definitions

PAGE = Path(__file__).with_name("METRICS.md")

HEAD = """# Metrics

`make docs` writes this page from the table in `kwire/metrics/definitions.tsv`.

```sh
pip install -e '.[web]'   # in a checkout
kwire serve --http 127.0.0.1:8080      # make run has it already
curl http://127.0.0.1:8080/metrics      # in a second terminal
```

The HTTP port has three answers for programs:

- `/metrics`: the metrics of this page, as text for Prometheus, or as OpenMetrics for a client that
  accepts it.
- `/healthz`: 200 while the broker's event loop turns, also during a long recovery. A restart is the
  remedy if it isn't.
- `/readyz`: 200 while everything is served. It is 503, with a line for each reason, during a start
  or a stop, while a coordinator loads, and while a data directory is offline.

Metrics that Apache Kafka has too are called as the JMX exporter for Prometheus and kafka_exporter
call them, so that dashboards for Kafka find them. A dashboard for Grafana is in
[grafana-dashboard.json](grafana-dashboard.json): import it and choose a Prometheus data source.

The number of series has limits (`kwire.metrics.max.…`, see [SETTINGS.md](SETTINGS.md)). Topics with
the most traffic come first, and the totals count all of them. Metrics are gathered at most once a
second.

Reading needs no login; `--http-admin` adds one for changes ([PAGE.md](PAGE.md)). The Host header of
a request must name an IP address, `localhost`, or one of
`kwire.http.allowed.hosts`. Requests without end get a quarter of a
processor at most, so that Kafka's clients hardly notice them.

## Metrics that clients push

With an HTTP port, the broker takes the metrics that Kafka's Java clients and librdkafka push
(KIP-714). They do so by themselves once a subscription asks for some:

```sh
kafka-client-metrics.sh --bootstrap-server localhost:9092 \\
  --alter --name all --metrics '*' --interval 60000
```

`kwire configs set client-metrics all metrics='*' interval.ms=60000` does the same. The broker
advertises the two APIs only while it has a subscription, because librdkafka writes a line to its
program's stderr whenever it may ask for one. So a client that connected before the first
subscription pushes after it has connected again.

They come out at `/metrics`. `org.apache.kafka.producer.request.latency.avg`, for instance, becomes
`kafka_client_producer_request_latency_avg`, with the labels `client_id`, `client_instance_id` and
those that the client gives. A client's series go three intervals after its last push.
"""


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for title, some in groupby(definitions().values(), lambda one: one.part):
        rows = ["| metric | type | labels | what it says |", "| --- | --- | --- | --- |"]
        for one in some:
            labels = ", ".join(f"`{label}`" for label in one.labels)
            rows.append(f"| `{one.name}` | {one.kind} | {labels} | {one.text} |")
        parts.append(f"\n## {title}\n\n" + "\n".join(rows) + "\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
