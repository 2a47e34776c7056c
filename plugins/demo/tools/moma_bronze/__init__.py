"""The Museum of Modern Art's collection as Debezium PostgreSQL events in bronze files, for the demo and the benchmark."""
