"""Transports of records: files and Kafka topics."""
