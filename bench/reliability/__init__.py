"""What failures cost the clients of a replicated cluster, kwire and Apache Kafka in one run."""
