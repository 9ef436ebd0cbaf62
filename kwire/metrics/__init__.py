"""A broker's metrics: their ``definitions``, their present values, and their formats.

Rules:

- Values are gathered in the broker's event loop, in slices, as plain numbers (``samples``), and
  only when a client asks for them. Everything else happens in the thread of the HTTP port.
- If dashboards for Apache Kafka know a name for a metric, kwire uses it: from the JMX exporter for
  Prometheus (``kafka_server_…``) or kafka_exporter (``kafka_consumergroup_…``).
- The number of series has limits: ``kwire.metrics.max.topics``, ``….partitions``, ``….groups``, and
  ``….client.series``. ``kwire_metrics_left_out`` says how many topics or groups are left out.
"""
