"""kwire: Apache Kafka's protocol, log and coordinators in Python."""

__version__ = "0.1.0"
