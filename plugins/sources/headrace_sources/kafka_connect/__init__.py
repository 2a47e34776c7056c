"""What Kafka Connect's schemas mean as types of Spark."""
