"""Sink for objects of records, which rotates and names objects like Confluent's S3 sink connector."""
