"""Configurations of Kafka Connect: connectors, converters, single message transforms and workers."""
