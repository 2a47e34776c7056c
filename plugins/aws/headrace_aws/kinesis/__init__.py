"""Streams of Amazon Kinesis."""
