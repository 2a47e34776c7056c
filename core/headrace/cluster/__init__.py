"""Packages for clusters without headrace: docs/spark-submit.md."""
