"""File tables in a Hive metastore."""
