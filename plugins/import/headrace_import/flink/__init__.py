"""Import of Flink CDC pipelines."""
