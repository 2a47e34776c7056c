"""Catalogs of file tables: the Hive metastore, and AWS Glue, whose tables have the same parts."""
