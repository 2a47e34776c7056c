"""What a pipeline needs on a cluster where headrace is not installed: docs/spark-submit.md."""
