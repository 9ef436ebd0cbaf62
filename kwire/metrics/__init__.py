"""A broker's metrics: what there is (``definitions``), its values now, and how they are written.

Rules:

- Values are gathered in the broker's event loop, in slices, as plain numbers (``samples``), and
  only when somebody asks. Everything else happens in the thread of the HTTP port.
- Names that dashboards for Apache Kafka know are used where there are some: those of the JMX
  exporter for Prometheus (``kafka_server_…``) and of kafka_exporter (``kafka_consumergroup_…``).
- The number of series has limits: ``kwire.metrics.max.topics``, ``….partitions``, ``….groups``, and
  ``….client.series``. ``kwire_metrics_left_out`` says how many topics or groups are left out.
"""
