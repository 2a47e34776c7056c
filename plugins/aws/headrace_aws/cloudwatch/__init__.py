"""Metrics of a run in Amazon CloudWatch."""
