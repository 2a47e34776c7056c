"""Kafka Connect's schemas as Spark types."""
