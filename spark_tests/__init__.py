"""PySpark with Kafka's stock connector, on kwire or on any other broker."""
